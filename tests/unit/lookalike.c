/* The first words of a live block belong to its owner: no content makes the block look freed. */
#include <string.h>

#include "check.h"
#include "hakmem.h"
#include "heap.h"
#include "slab.h"

static void set_words(void *block, uintptr_t link, uintptr_t tag) {
  const uintptr_t words[] = {link, tag};
  memcpy(block, words, sizeof words);
}

static void survives(void *block) {
  CHECK(hak_malloc_usable_size(block) >= 100);
  char *longer = hak_realloc(block, 1000);
  CHECK(longer != NULL);
  hak_free(longer);
}

/* It is malloc that stops for a damaged list; who looks for a block in it goes no further than its damage. */
static void a_damaged_list_is_no_trap(void) {
  uintptr_t before[2];
  void *block = hak_malloc(100), *freed = hide_pointer(hak_malloc(100));
  CHECK(block != NULL && freed != NULL);
  hak_free(freed);
  memcpy(before, freed, sizeof before);
  set_words(freed, 0x1230, 0);
  set_words(block, 0, hak_heap->key);
  CHECK(hak_malloc_usable_size(block) >= 100);
  memcpy(freed, before, sizeof before);
}

int main(void) {
  void *block = hak_malloc(100);
  CHECK(block != NULL);
  set_words(block, 0, hak_slab_tag_of((void *)block));
  survives(block);
  block = hak_malloc(100);
  set_words(block, (uintptr_t)block, (uintptr_t)block ^ hak_heap->key);
  survives(block);
  block = hak_malloc(100);
  set_words(block, 0, hak_heap->key);
  survives(block);
  a_damaged_list_is_no_trap();
  hak_check();
  return 0;
}
