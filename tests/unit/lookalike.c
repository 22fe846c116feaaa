/* The first words of a live block belong to its owner: no content makes the block look freed. Nor do stale contents of
 * memory that became part of another block. */
#include <pthread.h>
#include <string.h>

#include "blocks/slab.h"
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "inspect/sample.h"
#include "setting.h"
#include "threads/depot.h"
#include "threads/heap.h"

static const size_t sizes[] = {16, 100, 1000, 5000, 20000, 40000, 50000, 100000, 900000, 3 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, MANY = 300 };

static void *allocate(size_t bytes) {
  void *block = hak_malloc(bytes);
  CHECK(block != NULL);
  return block;
}

/* The owner writes the words that the block held while it was free. */
static void *like_free(void *block) {
  hak_mark_free(block);
  return block;
}

static void the_owner_may_write_a_mark(void) {
  for (size_t i = 0; i < SIZES; i++) {
    char *block = like_free(allocate(sizes[i]));
    CHECK(hak_malloc_usable_size(block) >= sizes[i]);
    block = hak_realloc(block, 2 * sizes[i]);
    CHECK(block != NULL);
    hak_free(like_free(block));
    hak_free(hak_realloc(like_free(allocate(sizes[i])), sizes[i] / 2));
    hak_free(hak_mark_taken(allocate(sizes[i])));
  }
  hak_check();
}

/* Such blocks are freed in every way: into a bin, past a full bin, to the slabs, to other threads. */
static void many_such_are_freed(void) {
  static void *blocks[MANY];
  for (size_t i = 0; i < SIZES; i++) {
    size_t many = sizes[i] < 20000 ? MANY : 40;
    for (int round = 0; round < 3; round++) {
      for (size_t k = 0; k < many; k++) {
        blocks[k] = allocate(sizes[i]);
      }
      for (size_t k = 0; k < many; k++) {
        hak_free(like_free(blocks[k]));
      }
    }
    hak_thread_flush();
    for (size_t k = 0; k < many; k++) {
      blocks[k] = allocate(sizes[i]);
    }
    for (size_t k = 0; k < many; k++) {
      hak_free(like_free(blocks[k]));
    }
  }
  hak_check();
  hak_thread_flush();
  hak_depot_flush(false);
  hak_check();
}

/* An array keeps pointers to blocks that were taken from it; such slots do not count. */
static void stale_slots_are_no_places(void) {
  enum { BYTES = 100 };
  const uint32_t cls = hak_class_of(BYTES);
  void *a = allocate(BYTES), *b = allocate(BYTES), *c = allocate(BYTES), *d = allocate(BYTES);
  hak_free(allocate(BYTES)); /* there is room */
  uint32_t before = hak_bin_blocks(hak_heap, cls);
  hak_free(a);
  hak_free(b);
  hak_free(c);
  CHECK(hak_bin_blocks(hak_heap, cls) == before + 3);
  CHECK(allocate(BYTES) == c && allocate(BYTES) == b);
  hak_free(d); /* b is still in the slot that d will get when another block is freed */
  CHECK(hak_verify_cache_holds(hak_heap, cls, a) && hak_verify_cache_holds(hak_heap, cls, d));
  CHECK(!hak_verify_cache_holds(hak_heap, cls, b) && !hak_verify_cache_holds(hak_heap, cls, c));
  CHECK(hak_malloc_usable_size(like_free(b)) >= BYTES && hak_malloc_usable_size(like_free(c)) >= BYTES);
}

/* The same in the array of a remote-free buffer. */
static void stale_slots_of_others_blocks_are_no_places(void) {
  enum { BYTES = 32, SOME = 50 };
  const uint32_t cls = hak_class_of(BYTES);
  static void *blocks[SOME];
  (void)hak_heap_mine();
  for (size_t i = 0; i < SOME; i++) {
    blocks[i] = hak_mark_taken(hak_freed_take_one(cls));
  }
  for (size_t i = 0; i < SOME; i++) {
    hak_free(blocks[i]);
  }
  CHECK(hak_heap->info[cls].buffers_remote && hak_heap->info[cls].remote_count > 0);
  for (size_t i = 0; i < SOME; i++) {
    bool waits = hak_verify_cache_holds(hak_heap, cls, blocks[i]);
    CHECK(waits != (hak_verify_slab_holds(blocks[i]) || hak_depot_holds(blocks[i], cls)));
    CHECK(waits == (i >= SOME - hak_heap->info[cls].remote_count));
  }
}

/* The same in the array of a counted batch. */
static void stale_slots_of_grants_are_no_places(void) {
  enum { BYTES = 100, SOME = 8 };
  const uint32_t cls = hak_class_of(BYTES);
  static void *blocks[SOME];
  CHECK(hak_sample_start(1 << 28));
  for (int round = 0; round < 50; round++) {
    for (size_t i = 0; i < SOME; i++) {
      blocks[i] = allocate(BYTES);
    }
    for (size_t i = 0; i < SOME; i++) {
      CHECK(!hak_verify_cache_holds(hak_heap, cls, blocks[i]));
      CHECK(hak_malloc_usable_size(like_free(blocks[i])) >= BYTES);
    }
    for (size_t i = 0; i < SOME; i++) {
      hak_free(blocks[i]);
    }
  }
}

/* Writes a mark at every place where a block could begin. */
static void fill_with_marks(char *block, size_t bytes) {
  for (size_t at = 0; at + HAK_BLOCK_MIN <= bytes; at += HAK_BLOCK_MIN) {
    like_free(block + at);
  }
}

/* Memory of one block becomes part of larger and smaller ones, with all its contents. */
static void stale_marks_are_no_signs(void) {
  static void *blocks[MANY];
  retain_everything();
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < SIZES; i++) {
      size_t many = (4 << 20) / sizes[i] < MANY ? (4 << 20) / sizes[i] : MANY;
      for (size_t k = 0; k < many; k++) {
        blocks[k] = allocate(sizes[i]);
        CHECK(!hak_is_marked_free(blocks[k]) || sizes[i] > HAK_CACHED_MAX);
        fill_with_marks(blocks[k], sizes[i]);
      }
      for (size_t k = 0; k < many; k++) {
        CHECK(hak_malloc_usable_size(blocks[k]) >= sizes[i]);
        hak_free(blocks[k]);
      }
      hak_thread_flush();
      hak_depot_flush(false);
    }
  }
  hak_check();
}

enum { SWAPS = 20000 };
static hak_heap_t swapped;
static _Atomic bool swapping;

/* Changes the magazine as its owner does at the end of the thread and at a new start. */
static void *swap_magazines(void *unused) {
  const uint32_t cls = hak_class_of(100);
  hak_bin_t *bin = &swapped.bin[cls];
  hak_magazine_t full = HAK_MAGAZINE_NONE;
  CHECK(hak_magazine_make(&full, HAK_MAGAZINE_MAX));
  hak_free_block_t **slots = hak_magazine_slots(&full);
  for (size_t i = 1; i <= HAK_MAGAZINE_MAX; i++) {
    slots[i] = HAK_NO_BLOCK;
  }
  for (int i = 0; i < SWAPS; i++) {
    hak_magazine_set(&swapped.info[cls].magazine, &full);
    atomic_store(&bin->top, slots + HAK_MAGAZINE_MAX - 1);
    for (int pause = 0; pause < 1000; pause++) {
      atomic_signal_fence(memory_order_seq_cst);
    }
    atomic_store(&bin->top, slots - 1);
    hak_magazine_set(&swapped.info[cls].magazine, &HAK_MAGAZINE_NONE);
    atomic_store(&bin->top, hak_magazine_none);
  }
  atomic_store(&swapping, false);
  return unused;
}

/* A thread that searches another thread's magazine never reads beyond it, even if it is exchanged meanwhile. */
static void a_magazine_that_goes_is_no_trap(void) {
  const uint32_t cls = hak_class_of(100);
  void *block = allocate(100);
  pthread_t thread;
  hak_cache_open(&swapped);
  swapping = true;
  CHECK(pthread_create(&thread, NULL, swap_magazines, NULL) == 0);
  while (swapping) {
    CHECK(!hak_verify_cache_holds(&swapped, cls, block));
  }
  CHECK(pthread_join(thread, NULL) == 0);
  hak_free(block);
}

/* A search for a block reads only the pointers in the bin, not the blocks, so damage does not stop it. malloc would
 * notice the damage. */
static void a_damaged_bin_is_no_trap(void) {
  void *block = allocate(100), *freed = hide_pointer(allocate(100));
  hak_free(freed);
  memset(freed, 0x12, 16);
  CHECK(hak_malloc_usable_size(like_free(block)) >= 100);
  like_free(freed);
}

int main(void) {
  child_succeeds(the_owner_may_write_a_mark);
  child_succeeds(many_such_are_freed);
  child_succeeds(stale_slots_are_no_places);
  child_succeeds(stale_slots_of_others_blocks_are_no_places);
  child_succeeds(stale_slots_of_grants_are_no_places);
  child_succeeds(stale_marks_are_no_signs);
  child_succeeds(a_magazine_that_goes_is_no_trap);
  child_succeeds(a_damaged_bin_is_no_trap);
  return 0;
}
