/* A fork at any moment of another thread's malloc or free: in the child a block may be lost, but is never in two
 * places. A thread that counts meanwhile counts no block twice. Each operation is stopped before each instruction. If
 * the state has changed since the last one, a child takes over the cache and allocates all blocks that there are. */
#include "child.h"
#include "inspect/records.h"
#include "inspect/sample.h"
#include "pages/retain.h"
#include "setting.h"
#include "system.h"
#include "system/meta.h"

enum { BYTES = 1024, SMALL_BYTES = 32, BLOCKS = 100, FRESH = 4 * BLOCKS, RARE = 1 << 28 };

#include "forked.h"

static size_t most; /* most blocks that a counting thread may see */

static bool holds_a_lock(void) {
  hak_lock_t *const locks[] = {&hak_meta_lock,    &hak_arena.lock,  &hak_depots[cls].lock, &hak_slab_classes[cls].lock,
                               &hak_samples_lock, &hak_options_lock};
  return holds_any(locks, sizeof locks / sizeof(void *));
}

static void take_over(void) {
  hak_cache_close(&mine, NULL);
  no_block_is_there_twice();
  hak_depot_flush(false);
  hak_cache_open(&mine);
  void *block = bins_alloc(&mine, bytes);
  bins_free(&mine, block);
  _exit(0);
}

static uint64_t state(void) {
  uint64_t hash = hash_of(1, &mine.bin[cls], sizeof mine.bin[cls]);
  hash = hash_of(hash, &mine.info[cls], offsetof(hak_bin_info_t, asked_bytes));
  hash = hash_of(hash, &mine.batch[cls - 1], sizeof(hak_batch_t));
  hash = hash_of(hash, &hak_depots[cls], sizeof(hak_depot_t));
  return hash_of_slabs(hash);
}

static size_t counted_now(void) {
  return hak_bin_blocks(&mine, cls) + hak_bin_batch_left(&mine, cls) + mine.info[cls].remote_count;
}

static void visit(unsigned step) {
  CHECK(counted_now() <= most);
  fork_if_changed(step);
}

static void begin(size_t size, hak_heap_t *from, size_t count) {
  bytes = size;
  cls = hak_class_of(size);
  most = SIZE_MAX;
  open_both();
  hak_policy_set_open(2);
  for (size_t i = 0; i < count; i++) {
    blocks[i] = bins_alloc(from, bytes);
    live[i] = true;
  }
  bins_drain(&mine, cls);
}

static void push_and_pop(void) {
  set_variable("HAKMEM_CACHE_C5=8");
  begin(BYTES, &mine, 20);
  give(0);
  for (size_t i = 1; i < 8; i++) {
    most = counted_now() + 1;
    stepped_free(i, 3);
  }
  for (size_t i = 0; i < 8; i++) {
    most = counted_now();
    stepped_malloc(i, 3);
  }
  CHECK(bins_empty(&mine, cls));
  most = 1;
  stepped_free(3, 3);
}

static void refill(void) {
  set_variable("HAKMEM_CACHE_C5=8");
  begin(BYTES, &mine, 3);
  for (size_t i = 3; i < 40; i++) {
    stepped_malloc(i, 3);
  }
}

/* The first free of a thread, and the free that finds the array full. */
static void growth(void) {
  set_variable("HAKMEM_CACHE_C5=100");
  begin(BYTES, &other, 80);
  uint32_t size = 0, grown = 0;
  for (size_t i = 0; i < 80; i++) {
    bool grows = hak_bin_blocks(&mine, cls) == mine.info[cls].magazine.size;
    most = counted_now() + 1;
    if (grows) {
      stepped_free(i, 6);
      CHECK(mine.info[cls].magazine.size > size);
      grown++;
    } else {
      give(i);
    }
    size = mine.info[cls].magazine.size;
  }
  CHECK(grown >= 4 && bins_length(&mine, cls) == 80);
}

/* An overflow passes half of the bin to other threads, or returns it. */
static void overflow_to(size_t caches) {
  set_variable("HAKMEM_CACHE_C5=8");
  begin(BYTES, &mine, 20);
  hak_policy_set_open(caches);
  for (size_t i = 0; i < 8; i++) {
    give(i);
  }
  most = 9;
  stepped_free(8, 5);
  CHECK(bins_length(&mine, cls) < 8);
}

static void overflow_to_slabs(void) {
  overflow_to(1);
}

static void overflow_to_others(void) {
  overflow_to(2);
}

static void flush_and_end(void) {
  begin(BYTES, &mine, 20);
  for (size_t i = 0; i < 6; i++) {
    give(i);
  }
  most = counted_now();
  stepped(act_flush, NULL, 3);
  give(7);
  give(8);
  most = counted_now();
  stepped(act_close, NULL, 5);
}

/* Other threads' blocks wait in the remote-free buffer and are passed on; then the bin works normally. */
static void a_closed_bin(void) {
  begin(SMALL_BYTES, &other, BLOCKS);
  CHECK(mine.info[cls].buffers_remote);
  stepped_free(0, 2);
  for (size_t i = 1; i < BLOCKS - 1; i++) {
    uint32_t waiting = mine.info[cls].remote_count;
    if (waiting < 2 || waiting >= 62) {
      most = counted_now() + 1;
      stepped_free(i, 2);
    } else {
      give(i);
    }
  }
  CHECK(!mine.info[cls].buffers_remote && mine.info[cls].remote_count == 0);
  most = SIZE_MAX;
  begin(SMALL_BYTES, &other, 2);
  stepped_free(0, 2);
  CHECK(mine.info[cls].buffers_remote && mine.info[cls].remote_count == 1);
  stepped_malloc(0, 5);
  CHECK(!mine.info[cls].buffers_remote);
}

/* All or some blocks of the bin become a counted batch, and are handed out; the rest of the batch goes back. */
static void grants_of(uint32_t left) {
  begin(BYTES, &mine, 20);
  CHECK(hak_sample_start(RARE));
  hak_heap = &mine;
  give(0);
  blocks[0] = hak_malloc(bytes); /* the thread notices the sampler */
  live[0] = true;
  act_flush(NULL);
  for (size_t i = 0; i < 6; i++) {
    give(i);
  }
  CHECK(bins_length(&mine, cls) >= 5 && hak_bin_batch_left(&mine, cls) == 0);
  mine.info[cls].sample_left = left;
  mine.info[cls].batch_least = 1;
  most = counted_now();
  stepped_malloc(0, 5);
  CHECK(hak_bin_batch_left(&mine, cls) > 0);
  stepped_malloc(1, 3);
  stepped(act_flush, NULL, 3);
  CHECK(hak_bin_batch_left(&mine, cls) == 0);
  hak_sample_stop();
}

static void a_whole_bin_is_counted(void) {
  grants_of(1000);
}

static void part_of_a_bin_is_counted(void) {
  grants_of(3);
}

/* The child cannot know whether a block without its tag is live. */
static void a_block_without_its_tag_is_left_out(void) {
  begin(BYTES, &mine, 20);
  for (size_t i = 0; i < 6; i++) {
    give(i);
  }
  *(size_t *)blocks[2] = 0;
  live[2] = true;
  hak_cache_close(&mine, NULL);
  no_block_is_there_twice();
}

int main(void) {
  system_set_clock_ms(1000000); /* no bin becomes idle on a slow machine */
  child_succeeds(push_and_pop);
  child_succeeds(refill);
  child_succeeds(growth);
  child_succeeds(overflow_to_slabs);
  child_succeeds(overflow_to_others);
  child_succeeds(flush_and_end);
  child_succeeds(a_closed_bin);
  child_succeeds(a_whole_bin_is_counted);
  child_succeeds(part_of_a_bin_is_counted);
  child_succeeds(a_block_without_its_tag_is_left_out);
  return 0;
}
