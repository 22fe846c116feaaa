/* Mixed slabs: the first blocks of all classes share pages, are aligned as in slabs of their own, and leave nothing
 * behind. */
#include "blocks/mixed.h"

#include <string.h>

#include "blocks/slab.h"
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "pages/arena.h"
#include "pages/pagemap.h"
#include "threads/heap.h"

enum { PAGE = 4096, CLASSES = HAK_CLASS_2048, MANY = 600 };

static bool is_mixed(const void *block) {
  return hak_pagemap_slice_class(block) == HAK_CLASS_MIXED;
}

static void check_all(void) {
  hak_check();
  hak_sweep_check();
}

static void nothing_is_left(void) {
  hak_heap_flush_mine("test");
  CHECK(hak_retain_used_slices() == 0);
  check_all();
}

static void first_blocks_share_pages(void) {
  char *blocks[CLASSES + 1];
  uintptr_t pages[CLASSES + 1];
  size_t bytes = 0, count = 0;
  for (uint32_t cls = 1; cls <= CLASSES; cls++) {
    size_t size = hak_class_sizes[cls];
    blocks[cls] = hak_malloc(size);
    memset(blocks[cls], (int)cls, size);
    CHECK(is_mixed(blocks[cls]) && hak_pagemap_class(blocks[cls]) == cls &&
          hak_malloc_usable_size(blocks[cls]) == size);
    CHECK((uintptr_t)blocks[cls] % (size & -size) == 0);
    CHECK(hak_pagemap_class(blocks[cls] + 16) != cls || size == 16);
    uintptr_t page = (uintptr_t)blocks[cls] / PAGE;
    bool known = false;
    for (size_t i = 0; i < count; i++) {
      known |= pages[i] == page;
    }
    pages[count] = page;
    count += !known;
    bytes += size;
  }
  CHECK(count <= bytes / PAGE * 2);
  check_all();
  for (uint32_t cls = 1; cls <= CLASSES; cls++) {
    for (size_t i = 0; i < hak_class_sizes[cls]; i++) {
      CHECK(blocks[cls][i] == (char)cls);
    }
    hak_free(blocks[cls]);
  }
  nothing_is_left();
}

static void a_class_that_is_used_has_slabs_of_its_own(void) {
  static void *blocks[MANY];
  size_t mixed = 0;
  for (size_t i = 0; i < MANY; i++) {
    blocks[i] = hak_malloc(100);
    mixed += is_mixed(blocks[i]);
  }
  CHECK(mixed == PAGE / 112 && !is_mixed(blocks[MANY - 1]));
  check_all();
  for (size_t i = 0; i < MANY; i++) {
    hak_free(blocks[i]);
  }
  nothing_is_left();
}

/* Each free of such a block takes the slow path, so the thread changes it for one of a slab. */
static void a_loop_soon_has_a_block_of_a_slab(void) {
  void *block = hak_malloc(200);
  CHECK(is_mixed(block));
  for (size_t i = 0; i < MANY; i++) {
    hak_free(block);
    block = hak_malloc(200);
  }
  CHECK(!is_mixed(block));
  hak_free(block);
  nothing_is_left();
}

static void pages_are_used_again(void) {
  for (size_t round = 0; round < 100; round++) {
    void *blocks[10];
    for (size_t i = 0; i < 10; i++) {
      blocks[i] = hak_malloc(16 + i * 48);
    }
    for (size_t i = 0; i < 10; i++) {
      hak_free(blocks[i]);
    }
    hak_heap_flush_mine("test");
    check_all();
  }
  CHECK(hak_arena_totals().mapped_slices == HAK_CHUNK_SLICES);
  nothing_is_left();
}

static char *crime_block;

static void free_inside(void) {
  hak_free(crime_block + 16);
}

static void free_twice(void) {
  hak_free(crime_block);
  hak_heap_flush_mine("test");
  hak_free(crime_block);
}

static void misuse_is_found(void) {
  void *stays = hak_malloc(1000);
  crime_block = hak_malloc(300);
  CHECK(is_mixed(crime_block) && stays != NULL);
  child_is_stopped(free_inside, "free", "not the start of a block", crime_block + 16);
  child_is_stopped(free_twice, "free", "double free", crime_block);
}

int main(void) {
  child_succeeds(first_blocks_share_pages);
  child_succeeds(a_class_that_is_used_has_slabs_of_its_own);
  child_succeeds(a_loop_soon_has_a_block_of_a_slab);
  child_succeeds(pages_are_used_again);
  child_succeeds(misuse_is_found);
  return 0;
}
