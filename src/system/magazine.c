/* Arrays of pointers to free blocks, in sizes that double. Bins and depots consist of them. */
#include "magazine.h"

#include "meta.h"
#include "os.h"

hak_free_block_t *hak_magazine_none[2] = {HAK_NO_BLOCK, HAK_NO_BLOCK};
static void *dropped[HAK_MAGAZINE_MAX_SHIFT + 1]; /* arrays, by the logarithm of their size */

bool hak_magazine_make(hak_magazine_t *magazine, uint32_t blocks) {
  uint32_t shift = blocks <= HAK_MAGAZINE_LEAST ? HAK_MAGAZINE_LEAST_SHIFT : 32 - (uint32_t)__builtin_clz(blocks - 1);
  if (shift > HAK_MAGAZINE_MAX_SHIFT) {
    return false;
  }
  hak_free_block_t **slots = hak_meta_take(&dropped[shift], ((1UL << shift) + 1) * sizeof *slots);
  if (!slots) {
    return false;
  }
  slots[0] = HAK_NO_BLOCK;
  hak_magazine_set(magazine, &(hak_magazine_t){slots, 1U << shift});
  return true;
}

void hak_magazine_drop(hak_magazine_t *magazine) {
  hak_magazine_t had = *magazine;
  hak_magazine_set(magazine, &HAK_MAGAZINE_NONE);
  if (had.size == 0) {
    return;
  }
  hak_free_block_t **slots = hak_magazine_slots(&had);
  uint32_t shift = (uint32_t)__builtin_ctz(had.size);
  if (shift >= HAK_ARRAY_PAGES_SHIFT) {
    uintptr_t page = hak_os_page_bytes(), first = hak_round_up((uintptr_t)(slots + 1), page);
    uintptr_t end = (uintptr_t)(slots + 1 + had.size) & ~(page - 1);
    hak_os_discard((void *)first, end - first);
  }
  hak_meta_drop(&dropped[shift], slots);
}
