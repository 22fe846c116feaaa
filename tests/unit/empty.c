/* Blocks of no bytes: their addresses, the behaviour without memory for them, and the reuse of freed ones. */
#include "malloc/zero_size.h"

#include <errno.h>

#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "pages/pagemap.h"
#include "system.h"
#include "system/os.h"

enum { MOST = 65536 };

static void *blocks[MOST + 1];

/* Without memory for blocks of no bytes, malloc(0) returns a small block. When there is memory again, it returns a
 * block of no bytes. */
static void without_memory_small_blocks_do(void) {
  hak_free(hak_malloc(1));
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  errno = EDOM;
  void *small = hak_malloc(0);
  CHECK(small && errno == EDOM && !hak_zero_size_owns(small) && hak_malloc_usable_size(small) == HAK_BLOCK_MIN);
  *(char *)small = 1;
  CHECK(hak_zero_size_take() == NULL);
  system_allow();
  errno = EDOM;
  void *empty = hak_malloc(0);
  CHECK(empty && errno == EDOM && hak_zero_size_owns(empty) && hak_malloc_usable_size(empty) == 0);
  hak_free(empty);
  hak_free(small);
  hak_check();
}

static void *came_first;

static void take_meanwhile(void) {
  came_first = hak_zero_size_take();
}

/* Two threads ask for the first block at the same time: one range stays, and the other is given back. */
static void one_range_serves(void) {
  system_during(SYSTEM_MMAP, take_meanwhile);
  void *block = hak_zero_size_take();
  CHECK(system_was_during() && came_first && block && block != came_first);
  CHECK(hak_zero_size_owns(block) && hak_zero_size_owns(came_first)); /* both blocks are in the range that stayed */
  hak_free(block);
  hak_free(came_first);
}

static void they_are_no_blocks_of_the_heap(void) {
  char *block = hak_zero_size_take(), *first = block;
  CHECK((uintptr_t)block % HAK_BLOCK_MIN == 0 && hak_pagemap_class(block) == HAK_CLASS_NONE);
  while (hak_zero_size_owns(first - HAK_BLOCK_MIN)) {
    first -= HAK_BLOCK_MIN;
  }
  CHECK(!hak_zero_size_owns(NULL) && !hak_zero_size_owns(first - 1) && hak_zero_size_owns(block + 1));
  CHECK(hak_zero_size_owns(first + (1 << 20) - 1) && !hak_zero_size_owns(first + (1 << 20)));
  hak_free(block);
}

static void as_many_again_as_were_freed(void) {
  for (size_t i = 0; i < MOST; i++) {
    CHECK((blocks[i] = hak_zero_size_take()) != NULL);
  }
  CHECK(hak_zero_size_take() == NULL);
  for (size_t i = 0; i < MOST; i += 5) {
    void *block = blocks[i * 7919 % MOST];
    hak_free(block);
    void *again = hak_zero_size_take();
    CHECK(again && hak_zero_size_take() == NULL);
    blocks[i * 7919 % MOST] = again;
  }
  for (size_t i = 0; i < MOST; i++) {
    hak_free(blocks[i]);
  }
  CHECK((blocks[0] = hak_zero_size_take()) != NULL);
  hak_free(blocks[0]);
}

int main(void) {
  child_succeeds(without_memory_small_blocks_do);
  child_succeeds(one_range_serves);
  child_succeeds(they_are_no_blocks_of_the_heap);
  child_succeeds(as_many_again_as_were_freed);
  return 0;
}
