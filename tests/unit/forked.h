/* Operations of one thread that are stopped before each instruction. If the state has changed since the last one, a
 * child is forked there. The test defines BLOCKS and FRESH before this header, and the functions declared here. */
#ifndef HAK_TEST_FORKED_H
#define HAK_TEST_FORKED_H

#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "steps.h"
#include "threads/cache.h"
#include "threads/heap.h"
#include "two_bins.h"

static size_t bytes;      /* asked for */
static uint32_t cls;      /* of the blocks */
static bool live[BLOCKS]; /* whether the program uses blocks[i] */
static void *pending;     /* what the stepped malloc returned */
static unsigned forks;

static bool holds_a_lock(void);   /* a fork waits for locks */
static uint64_t state(void);      /* a hash of all data that says where a block is */
static void take_over(void);      /* in the child; does not return */
static void visit(unsigned step); /* before each instruction; calls fork_if_changed */

static inline bool holds_any(hak_lock_t *const *locks, size_t count) {
  bool held = false;
  for (size_t i = 0; i < count; i++) {
    held |= hak_lock_is_mine(locks[i]);
  }
  return held;
}

static size_t *all[BLOCKS + FRESH + 1];

/* Writes a different number to each live block and to as many fresh ones, and checks them when all are written. Returns
 * how many there are. */
static inline size_t no_block_is_there_twice(void) {
  size_t count = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    if (live[i]) {
      all[count++] = blocks[i];
    }
  }
  if (pending) {
    all[count++] = pending;
  }
  for (size_t i = 0; i < FRESH; i++) {
    all[count++] = bins_alloc(&other, bytes);
  }
  for (size_t i = 0; i < count; i++) {
    *all[i] = i;
  }
  for (size_t i = 0; i < count; i++) {
    CHECK(*all[i] == i);
  }
  return count;
}

static inline uint64_t hash_of(uint64_t hash, const void *object, size_t object_bytes) {
  const uint64_t *words = object;
  for (size_t i = 0; i < object_bytes / sizeof *words; i++) {
    hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29;
  }
  return hash;
}

static inline uint64_t hash_of_slabs(uint64_t hash) {
  const hak_slab_t *last = NULL;
  for (size_t i = 0; i < BLOCKS; i++) {
    const hak_slab_t *slab = blocks[i] ? hak_pagemap_slab(blocks[i]) : NULL;
    if (slab && slab != last) {
      hash = hash_of(hash, slab, sizeof *slab);
    }
    last = slab;
  }
  return hash;
}

static inline void fork_if_changed(unsigned step) {
  static uint64_t before;
  uint64_t now = state();
  if ((step > 0 && now == before) || holds_a_lock()) {
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

static inline void stepped(void (*act)(void *argument), void *argument, unsigned forks_least) {
  hak_heap = &mine;
  forks = 0;
  CHECK(!holds_a_lock());
  steps_run(act, argument, visit);
  CHECK(forks >= forks_least || !STEPS_SUPPORTED);
  hak_verify_check(&mine);
}

/* The program allocates or frees the block with that number. */
static inline void stepped_malloc(size_t i, unsigned forks_least) {
  pending = NULL;
  CHECK(!live[i]);
  stepped(act_malloc, NULL, forks_least);
  CHECK(pending != NULL);
  blocks[i] = pending;
  live[i] = true;
  pending = NULL;
}

static inline void stepped_free(size_t i, unsigned forks_least) {
  CHECK(live[i]);
  live[i] = false;
  stepped(act_free, blocks[i], forks_least);
}

static inline void give(size_t i) {
  live[i] = false;
  bins_free(&mine, blocks[i]);
}

#endif
