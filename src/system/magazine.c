/* Arrays of pointers to free blocks, in sizes that double. Bins and depots consist of them. */
#include "magazine.h"

#include "meta.h"
#include "os.h"

enum {
  SIZE_MIN_SHIFT = 3,
  SIZE_MAX_SHIFT = 18,
};
_Static_assert(HAK_MAGAZINE_LEAST == 1 << SIZE_MIN_SHIFT, "the smallest size");
_Static_assert(HAK_MAGAZINE_MAX == 1 << SIZE_MAX_SHIFT, "the largest size");

hak_lock_t hak_magazines_lock = HAK_LOCK_INIT;
hak_free_block_t *hak_magazine_none[2] = {HAK_NO_BLOCK, HAK_NO_BLOCK};
static hak_free_block_t **spare[SIZE_MAX_SHIFT + 1]; /* lists, linked by the first slot of each array */

static size_t bytes_of(uint32_t size) {
  return (size + 1UL) * sizeof(void *);
}

bool hak_magazine_make(hak_magazine_t *magazine, uint32_t blocks) {
  uint32_t shift = blocks <= 1U << SIZE_MIN_SHIFT ? SIZE_MIN_SHIFT : 32 - (uint32_t)__builtin_clz(blocks - 1);
  if (shift > SIZE_MAX_SHIFT) {
    return false;
  }
  hak_lock(&hak_magazines_lock);
  hak_free_block_t **slots = spare[shift];
  if (slots) {
    spare[shift] = (hak_free_block_t **)(void *)slots[0];
  }
  hak_unlock(&hak_magazines_lock);
  if (!slots && !(slots = hak_meta_alloc(bytes_of(1U << shift)))) {
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
  hak_lock(&hak_magazines_lock);
  slots[0] = (hak_free_block_t *)(void *)spare[shift];
  spare[shift] = slots;
  hak_unlock(&hak_magazines_lock);
}
