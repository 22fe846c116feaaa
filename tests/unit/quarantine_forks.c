/* A fork at any moment of another thread's malloc or free in the hardened profile: in the child a block may be lost,
 * but no structure names one that is live, or that is in another place too. Each operation is stopped before each
 * instruction. If the state has changed since the last one, a child closes the thread's heap and allocates. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "cache.h"
#include "child.h"
#include "hakmem.h"
#include "heap.h"
#include "meta.h"
#include "quarantine.h"
#include "records.h"
#include "retain.h"
#include "steps.h"
#include "system.h"
#include "two_bins.h"

enum { BLOCKS = 300, CHILD_BLOCKS = 2 * BLOCKS };

static size_t bytes;      /* asked for */
static uint32_t cls;      /* of the blocks */
static bool live[BLOCKS]; /* whether the program uses blocks[i] */
static void *pending;     /* what the stepped malloc returned */
static unsigned forks;

static bool holds_a_lock(void) {
  hak_lock_t *const locks[] = {&hak_meta_lock,  &hak_magazines_lock, &hak_arena.lock, &hak_slab_classes[cls].lock,
                               &hak_heaps_lock, &hak_ended_lock};
  bool held = false;
  for (size_t i = 0; i < sizeof locks / sizeof(void *); i++) {
    held |= hak_lock_is_mine(locks[i]);
  }
  return held;
}

/* Writes a different number to each block, and checks them when all are written. */
static void no_block_is_there_twice(void) {
  static size_t *all[BLOCKS + CHILD_BLOCKS + 1];
  size_t count = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    if (live[i]) {
      all[count++] = blocks[i];
    }
  }
  if (pending) {
    all[count++] = pending;
  }
  for (size_t i = 0; i < CHILD_BLOCKS; i++) {
    all[count++] = bins_alloc(&other, bytes);
  }
  for (size_t i = 0; i < count; i++) {
    *all[i] = i;
  }
  for (size_t i = 0; i < count; i++) {
    CHECK(*all[i] == i);
  }
  for (size_t i = 0; i < count; i++) { /* each is live, and its seal was not taken for another's */
    bins_free(&other, all[i]);
  }
}

static void take_over(void) {
  hak_cache_close(&mine, NULL);
  no_block_is_there_twice();
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

/* A hash of all data that says where a block is: the heap's structures, the slabs, and both ends of the blocks. */
static uint64_t state(void) {
  const hak_waiting_t *waiting = &mine.quarantine->waiting[cls];
  uint64_t hash = hash_of(1, waiting, sizeof *waiting);
  hash = hash_of(hash, hak_magazine_slots(&waiting->array), hak_magazine_size(&waiting->array) * sizeof(void *));
  const hak_slab_t *last = NULL;
  for (size_t i = 0; i < BLOCKS; i++) {
    const hak_slab_t *slab = blocks[i] ? hak_slab_at(blocks[i]) : NULL;
    if (slab && slab != last) {
      hash = hash_of(hash, slab, sizeof *slab);
    }
    last = slab;
    if (blocks[i]) {
      const uint64_t ends[] = {*(const uint64_t *)blocks[i], hak_seal_load(blocks[i], hak_class_sizes[cls])};
      hash = hash_of(hash, ends, sizeof ends);
    }
  }
  return hash;
}

static void visit(unsigned step) {
  static uint64_t before;
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

static void act_malloc(void *unused) {
  (void)unused;
  pending = hak_malloc(bytes);
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
}

static void stepped_malloc(size_t i, unsigned forks_least) {
  pending = NULL;
  CHECK(!live[i]);
  stepped(act_malloc, NULL, forks_least);
  CHECK(pending != NULL);
  blocks[i] = pending;
  live[i] = true;
  pending = NULL;
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

static void begin(size_t size) {
  bytes = size;
  cls = hak_class_of(size + HAK_SEAL_BYTES);
  open_both();
  hak_heap = &mine;
  CHECK(hak_hard.on && hak_quarantine_open(&mine) && hak_quarantine_open(&other));
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = bins_alloc(&mine, bytes);
    live[i] = true;
  }
}

/* The quarantine fills: blocks wait in random places, then in order, then they are ready. Then some are returned. */
static void frees(size_t size) {
  enum { EVERY = 13 };
  begin(size);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i % EVERY == 0) {
      stepped_free(i, 2);
    } else {
      give(i);
    }
  }
}

static void frees_of_small_blocks(void) {
  frees(40);
}

static void frees_of_larger_blocks(void) {
  frees(1000);
}

static void takes_and_refills(void) {
  begin(1000);
  for (size_t i = 0; i < 70; i++) {
    give(i);
  }
  for (size_t i = 0; i < 30; i++) {
    stepped_malloc(i, 2);
  }
}

static void flush_and_end(void) {
  begin(1000);
  for (size_t i = 0; i < 70; i++) {
    give(i);
  }
  stepped(act_flush, NULL, 10);
  for (size_t i = 70; i < 140; i++) {
    give(i);
  }
  stepped(act_close, NULL, 10);
}

/* The child cannot know whether a block without the seal of a free block is live. */
static void a_block_without_its_seal_is_left_out(void) {
  begin(1000);
  for (size_t i = 0; i < 20; i++) {
    give(i);
  }
  hak_seal_put(blocks[10], hak_class_sizes[cls], hak_seal_base(blocks[10]), (uint32_t)bytes, false);
  live[10] = true;
  hak_cache_close(&mine, NULL);
  no_block_is_there_twice();
}

int main(void) {
  system_set_clock_ms(1000000);
  child_succeeds(frees_of_small_blocks);
  child_succeeds(frees_of_larger_blocks);
  child_succeeds(takes_and_refills);
  child_succeeds(flush_and_end);
  child_succeeds(a_block_without_its_seal_is_left_out);
  return 0;
}
