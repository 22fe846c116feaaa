/* A thread's bins: refill, overflow, flush, and bins of classes that only others allocate. */
#include "threads/cache.h"

#include <string.h>
#include <unistd.h>

#include "child.h"
#include "pages/arena.h"
#include "setting.h"
#include "system.h"
#include "two_bins.h"

enum { BYTES = 1024, BLOCKS = 4000 };

static void nothing_is_left(void) {
  bins_return(&mine, &other);
  hak_verify_check(&mine);
  hak_sweep_check();
  hak_arena_check();
  CHECK(hak_retain_used_slices() == 0);
}

static void a_new_cache_is_empty(void) {
  open_both();
  CHECK(hak_policy_caches_open() == 1); /* at least */
  hak_policy_set_open(2);
  CHECK(hak_policy_caches_open() == 2);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    hak_bin_info_t *info = &mine.info[cls];
    CHECK(bins_empty(&mine, cls) && !info->current && info->remote_count == 0 && info->magazine.size == 0);
    CHECK(mine.bin[cls].inverse == hak_class_inverses[cls] && mine.bin[cls].limit == hak_class_limits[cls]);
    CHECK(!info->fixed);
    CHECK(bins_capacity(&mine, cls) == 0 && bins_room(&mine, cls) == 0); /* until a block is freed */
    CHECK(!info->buffers_remote || hak_class_sizes[cls] <= HAK_CACHE_LINE);
  }
  CHECK(hak_retain_used_slices() == 0);
  hak_verify_check(&mine);
}

static void blocks_come_from_the_current_slab(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  alloc_many(&mine, BYTES, 500);
  hak_verify_check(&mine);
  CHECK(mine.info[cls].current != NULL);
  CHECK(mine.info[cls].asked_count > 0);
  CHECK(mine.info[cls].asked_bytes == mine.info[cls].asked_count * BYTES);
  free_many(&mine, 500);
  hak_verify_check(&mine);
  hak_cache_flush(&mine, "test");
  CHECK(bins_empty(&mine, cls) && !mine.info[cls].current);
  nothing_is_left();
}

/* Blocks of a refill are marked as taken. Otherwise, if an owner writes nothing and frees a block twice, the block
 * would look free in both places. */
static void what_a_refill_hands_out_is_marked(void) {
  bool zeroed;
  open_both();
  for (size_t i = 0; i < 3; i++) { /* alone; with others that were never handed out; with others that were */
    void *block = hak_cache_refill(&mine, hak_class_of(BYTES), BYTES, &zeroed);
    CHECK(block && hak_is_marked_taken(block));
    bins_free(&mine, block);
    alloc_many(&mine, BYTES, 100);
    free_many(&mine, 100);
    hak_cache_flush(&mine, "test");
  }
  nothing_is_left();
}

/* A thread that takes a few blocks shares slabs with others. */
static void a_few_blocks_keep_no_slab(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  blocks[0] = bins_alloc(&mine, BYTES);
  CHECK(!mine.info[cls].current);
  blocks[1] = bins_alloc(&other, BYTES);
  CHECK(hak_pagemap_slab(blocks[0]) == hak_pagemap_slab(blocks[1]));
}

static void without_memory_there_is_no_block(void) {
  bool zeroed;
  open_both();
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  CHECK(hak_cache_refill(&mine, hak_class_of(BYTES), BYTES, &zeroed) == NULL);
  CHECK(hak_cache_refill(&mine, hak_class_of(200000), 200000, &zeroed) == NULL);
  system_allow();
  CHECK(hak_cache_refill(&mine, hak_class_of(BYTES), BYTES, &zeroed) != NULL && !zeroed);
  CHECK(hak_cache_refill(&mine, hak_class_of(200000), 200000, &zeroed) != NULL && zeroed);
  hak_verify_check(&mine);
}

/* Fills a bin with eight blocks; a ninth is in use. Returns the class. */
static uint32_t fill_a_bin(void) {
  const uint32_t cls = hak_class_of(BYTES);
  set_variable("HAKMEM_CACHE_C5=8");
  open_both();
  alloc_many(&mine, BYTES, 9);
  bins_drain(&mine, cls);
  for (size_t i = 0; i < 8; i++) {
    bins_free(&mine, blocks[i]);
  }
  return cls;
}

/* Overflow returns the newest blocks, except the one that overflowed. This one is handed out next, then those that
 * stayed. */
static void overflow_returns_the_newest(void) {
  hak_free_block_t *left[8];
  const uint32_t cls = fill_a_bin();
  CHECK(bins_blocks(&mine, cls, left, 8) == 8 && left[0] == blocks[7] && bins_room(&mine, cls) == 0);
  bins_free(&mine, blocks[8]);
  hak_verify_check(&mine);
  uint32_t count = bins_blocks(&mine, cls, left, 8);
  CHECK(count > 1 && count < 8 && left[0] == blocks[8]);
  for (uint32_t i = 1; i < count; i++) {
    CHECK(left[i] == blocks[count - 1 - i]);
  }
  for (uint32_t i = count - 1; i < 8; i++) {
    CHECK(hak_verify_slab_holds(blocks[i]));
  }
}

static void free_what_becomes_the_first(void) {
  bins_free(&mine, blocks[3]);
  _exit(0); /* without the check at exit, which would notice it, too */
}

/* Half of a full bin is returned. Then the newest block in it is the block that is being freed again. */
static void a_second_free_of_what_stays_is_noticed(void) {
  fill_a_bin();
  child_is_stopped(free_what_becomes_the_first, "free", "double free", blocks[3]);
}

static void a_flush_returns_everything(void) {
  open_both();
  for (size_t bytes = 16; bytes <= HAK_CACHED_MAX; bytes *= 2) {
    bins_free(&mine, bins_alloc(&mine, bytes));
  }
  nothing_is_left();
  void *block = bins_alloc(&mine, BYTES);
  bins_free(&mine, block);
  hak_verify_check(&mine);
}

/* A thread flushes at its next refill or overflow if another one asks for it. */
static void a_flush_can_be_requested(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  alloc_many(&mine, BYTES, 100);
  bins_free(&mine, blocks[0]);
  CHECK(!bins_empty(&mine, cls) && mine.info[cls].current);
  hak_cache_request_flush();
  CHECK(!bins_empty(&mine, cls));
  void *large = bins_alloc(&mine, HAK_SMALL_MAX);
  CHECK(bins_empty(&mine, cls) && !mine.info[cls].current);
  hak_verify_check(&mine);
  bins_free(&mine, large);
}

/* A thread that only frees small blocks of other threads passes on the first full buffer of them. From then on it
 * counts as a thread that only frees, and its bin works normally. */
static void closed_bins_pass_on_what_others_made(void) {
  const uint32_t cls = hak_class_of(32);
  open_both();
  hak_policy_set_open(2);
  CHECK(mine.info[cls].buffers_remote);
  alloc_many(&other, 32, BLOCKS);
  uint32_t most = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    bins_free(&mine, blocks[i]);
    CHECK(!mine.info[cls].buffers_remote || (bins_empty(&mine, cls) && bins_room(&mine, cls) == 0));
    most = most > mine.info[cls].remote_count ? most : mine.info[cls].remote_count;
  }
  CHECK(most > 0 && most < BLOCKS / 4 && !mine.info[cls].buffers_remote);
  hak_verify_check(&mine);
  CHECK(hak_depot_count(cls) > 0);
  nothing_is_left();
}

/* If there is no other thread, the blocks go back to their slabs, some of which become free. */
static void a_lone_thread_passes_nothing_on(void) {
  const uint32_t cls = hak_class_of(32);
  open_both();
  hak_policy_set_open(1);
  alloc_many(&other, 32, BLOCKS);
  for (size_t i = 0; i < BLOCKS; i++) {
    bins_free(&mine, blocks[i]);
  }
  CHECK(hak_depot_count(cls) == 0);
  nothing_is_left();
}

/* The thread that allocates gets them back before it takes new memory. */
static void what_is_passed_on_is_taken_up(void) {
  enum { ROUNDS = 50, BATCH = 500 };
  open_both();
  hak_policy_set_open(2);
  alloc_many(&other, BYTES, BATCH);
  size_t used = hak_retain_used_slices();
  for (int round = 0; round < ROUNDS; round++) {
    free_many(&mine, BATCH);
    alloc_many(&other, BYTES, BATCH);
    hak_verify_check(&mine);
    hak_verify_check(&other);
  }
  CHECK(hak_retain_used_slices() <= used + 4 * HAK_SLAB_SLICES);
  free_many(&mine, BATCH);
  CHECK(hak_depot_count(hak_class_of(BYTES)) > 0);
  nothing_is_left();
}

static void a_closed_bin_opens_at_the_first_block(void) {
  const uint32_t cls = hak_class_of(64);
  open_both();
  blocks[0] = bins_alloc(&other, 64);
  blocks[1] = bins_alloc(&other, 64);
  bins_free(&mine, blocks[0]);
  bins_free(&mine, blocks[1]);
  CHECK(mine.info[cls].buffers_remote && mine.info[cls].remote_count == 2);
  void *block = bins_alloc(&mine, 64);
  CHECK(!mine.info[cls].buffers_remote && mine.info[cls].remote_count == 0);
  bins_free(&mine, block);
  CHECK(mine.bin[cls].head == block);
  hak_verify_check(&mine);
  nothing_is_left();
}

static void a_flush_returns_the_blocks_of_others_too(void) {
  const uint32_t cls = hak_class_of(16);
  open_both();
  alloc_many(&other, 16, 10);
  free_many(&mine, 10);
  CHECK(mine.info[cls].remote_count == 10);
  hak_cache_flush(&mine, "test");
  CHECK(mine.info[cls].remote_count == 0 && mine.info[cls].buffers_remote);
  nothing_is_left();
}

/* The check at exit changes nothing, since other libraries may use the heap after it. */
static void verification_changes_nothing(void) {
  open_both();
  alloc_many(&mine, BYTES, BLOCKS);
  free_many(&mine, BLOCKS);
  bins_free(&other, bins_alloc(&mine, 32)); /* counts in `remote_count` */
  hak_verify_cache(&mine, "test");
  hak_verify_cache(&other, "test");
  hak_verify_check(&mine);
  hak_verify_check(&other);
  alloc_many(&mine, BYTES, BLOCKS);
  free_many(&mine, BLOCKS);
  nothing_is_left();
}

/* The orphan's thread stopped in the middle of a change, so a block may be lost. */
static void an_orphan_returns_what_it_has(void) {
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  alloc_many(&mine, BYTES, 10);
  free_many(&mine, 10);
  void *small = bins_alloc(&other, 32);
  bins_free(&mine, small);
  uint32_t length = bins_length(&mine, cls);
  CHECK(length >= 2 && length <= 10);
  atomic_store(&mine.bin[cls].top, mine.bin[cls].top - 1); /* a block was about to be handed out */
  hak_cache_close(&mine, NULL);
  CHECK(bins_empty(&mine, cls) && !mine.info[cls].current && mine.info[cls].magazine.size == 0);
  CHECK(mine.info[hak_class_of(32)].remote_count == 0);
  size_t back = hak_verify_slab_holds(small) ? 1 : 0;
  for (size_t i = 0; i < 10; i++) {
    back += hak_verify_slab_holds(blocks[i]) ? 1 : 0;
  }
  CHECK(back == 10);
  hak_cache_open(&mine);
  CHECK(bins_alloc(&mine, BYTES) != NULL);
  hak_sweep_check();
}

/* After a fall in use, freed blocks stay neither in the depot nor in the bin of the thread that freed them. */
static void a_heap_that_fell_is_in_no_cache(void) {
  enum { MANY = 6000 };
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  hak_policy_set_open(2);
  bins_free(&other, bins_alloc(&mine, BYTES));
  CHECK(bins_length(&mine, cls) == 0);
  alloc_many(&mine, 3 * BYTES / 2, 20); /* takes the other blocks of the refill, too */
  free_many(&other, 20);
  alloc_many(&other, BYTES, MANY);
  free_many(&mine, MANY / 2);
  CHECK(hak_depot_count(cls) > 0 && bins_capacity(&mine, cls) > 1);
  for (size_t i = MANY / 2; i < MANY; i++) {
    bins_free(&mine, blocks[i]);
  }
  CHECK(hak_retain_has_fallen() && hak_depot_count(cls) == 0 && bins_length(&mine, cls) <= 1);
  nothing_is_left();
}

int main(void) {
  system_set_clock_ms(1000000); /* no bin becomes idle on a slow machine */
  child_succeeds(a_new_cache_is_empty);
  child_succeeds(blocks_come_from_the_current_slab);
  child_succeeds(what_a_refill_hands_out_is_marked);
  child_succeeds(a_few_blocks_keep_no_slab);
  child_succeeds(without_memory_there_is_no_block);
  child_succeeds(overflow_returns_the_newest);
  child_succeeds(a_second_free_of_what_stays_is_noticed);
  child_succeeds(a_flush_returns_everything);
  child_succeeds(a_flush_can_be_requested);
  child_succeeds(closed_bins_pass_on_what_others_made);
  child_succeeds(a_lone_thread_passes_nothing_on);
  child_succeeds(what_is_passed_on_is_taken_up);
  child_succeeds(a_closed_bin_opens_at_the_first_block);
  child_succeeds(a_flush_returns_the_blocks_of_others_too);
  child_succeeds(verification_changes_nothing);
  child_succeeds(an_orphan_returns_what_it_has);
  child_succeeds(a_heap_that_fell_is_in_no_cache);
  return 0;
}
