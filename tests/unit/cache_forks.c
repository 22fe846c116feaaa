/* A fork at any moment of another thread's malloc or free: in the child a block may be lost, but is never in two
 * places. A thread that counts meanwhile counts no block twice. Each operation is stopped before each instruction. If
 * the state has changed since the last one, a child takes over the cache and allocates all blocks that there are. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache.h"
#include "child.h"
#include "meta.h"
#include "records.h"
#include "retain.h"
#include "sample.h"
#include "setting.h"
#include "steps.h"
#include "system.h"
#include "two_bins.h"

enum { BYTES = 1024, SMALL_BYTES = 32, BLOCKS = 100, RARE = 1 << 28 };

static size_t bytes;      /* size of the scenario's blocks */
static uint32_t cls;      /* their class */
static bool live[BLOCKS]; /* whether the program uses blocks[i] */
static size_t most;       /* most blocks that a counting thread may see */
static unsigned forks;

static bool holds_a_lock(void) {
  hak_lock_t *const locks[] = {&hak_magazines_lock,         &hak_meta_lock,    &hak_arena.lock,  &hak_depots[cls].lock,
                               &hak_slab_classes[cls].lock, &hak_samples_lock, &hak_options_lock};
  bool held = false;
  for (size_t i = 0; i < sizeof locks / sizeof(void *); i++) {
    held |= hak_lock_is_mine(locks[i]);
  }
  return held;
}

/* Writes a different number to each block, and checks them when all are written. */
static void no_block_is_there_twice(void) {
  enum { ALL = 4 * BLOCKS };
  static size_t *all[ALL + BLOCKS];
  size_t count = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    if (live[i]) {
      all[count++] = blocks[i];
    }
  }
  for (size_t i = 0; i < ALL; i++) {
    all[count++] = bins_alloc(&other, bytes);
  }
  for (size_t i = 0; i < count; i++) {
    *all[i] = i;
  }
  for (size_t i = 0; i < count; i++) {
    CHECK(*all[i] == i);
  }
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

static uint64_t hash_of(uint64_t hash, const void *object, size_t object_bytes) {
  const uint64_t *words = object;
  for (size_t i = 0; i < object_bytes / sizeof *words; i++) {
    hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29;
  }
  return hash;
}

/* A hash of all data that says where a block is. */
static uint64_t state(void) {
  uint64_t hash = hash_of(1, &mine.bin[cls], sizeof mine.bin[cls]);
  hash = hash_of(hash, &mine.info[cls], offsetof(hak_bin_info_t, asked_bytes));
  hash = hash_of(hash, &mine.batch[cls - 1], sizeof(hak_batch_t));
  hash = hash_of(hash, &hak_depots[cls], sizeof(hak_depot_t));
  const hak_slab_t *last = NULL;
  for (size_t i = 0; i < BLOCKS; i++) {
    const hak_slab_t *slab = blocks[i] ? hak_slab_at(blocks[i]) : NULL;
    if (slab && slab != last) {
      hash = hash_of(hash, slab, sizeof *slab);
    }
    last = slab;
  }
  return hash;
}

static void visit(unsigned step) {
  static uint64_t before;
  size_t counted = hak_bin_blocks(&mine, cls) + hak_batch_left(&mine, cls) + mine.info[cls].remote_count;
  CHECK(counted <= most);
  uint64_t now = state();
  if ((step > 0 && now == before) || holds_a_lock()) { /* a fork waits for locks */
    return;
  }
  before = now;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    take_over();
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  forks++;
}

/* Operations */

static void act_malloc(void *index) {
  *(void **)index = hak_malloc(bytes);
}

static void act_free(void *block) {
  hak_free(block);
}

static void act_flush(void *unused) {
  (void)unused;
  hak_cache_flush(&mine, "test");
}

static void act_close(void *unused) {
  (void)unused;
  hak_cache_close(&mine, "test");
}

static void stepped(void (*act)(void *argument), void *argument, unsigned forks_least) {
  hak_heap = &mine;
  forks = 0;
  CHECK(!holds_a_lock());
  steps_run(act, argument, visit);
  CHECK(forks >= forks_least || !STEPS_SUPPORTED);
  hak_cache_check(&mine);
}

static size_t counted_now(void) {
  return hak_bin_blocks(&mine, cls) + hak_batch_left(&mine, cls) + mine.info[cls].remote_count;
}

/* The program allocates or frees the block with that number. */
static void stepped_malloc(size_t i, unsigned forks_least) {
  void *block = NULL;
  CHECK(!live[i]);
  stepped(act_malloc, &block, forks_least);
  CHECK(block != NULL);
  blocks[i] = block;
  live[i] = true;
}

static void stepped_free(size_t i, unsigned forks_least) {
  CHECK(live[i]);
  live[i] = false;
  stepped(act_free, blocks[i], forks_least);
}

static void give(size_t i) {
  live[i] = false;
  bins_free(&mine, blocks[i]);
}

static void begin(size_t size, hak_heap_t *from, size_t count) {
  bytes = size;
  cls = hak_class_of(size);
  most = SIZE_MAX;
  open_both();
  hak_cache_set_open(2);
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
  hak_cache_set_open(caches);
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
  CHECK(bins_length(&mine, cls) >= 5 && hak_batch_left(&mine, cls) == 0);
  mine.info[cls].sample_left = left;
  mine.info[cls].batch_least = 1;
  most = counted_now();
  stepped_malloc(0, 5);
  CHECK(hak_batch_left(&mine, cls) > 0);
  stepped_malloc(1, 3);
  stepped(act_flush, NULL, 3);
  CHECK(hak_batch_left(&mine, cls) == 0);
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
