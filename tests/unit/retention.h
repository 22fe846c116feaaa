/* The options of retention for one test, its clock, and the state that follows from both. */
#ifndef HAK_TEST_RETENTION_H
#define HAK_TEST_RETENTION_H

#include "setting.h"
#include "slices.h"

enum { SLAB = HAK_SLAB_SLICES, WINDOW_MS = 1000, TICKS = 10 /* a window */ };
#define NO_MOST ((size_t)INT64_MAX >> HAK_SLICE_SHIFT)

typedef struct Policy {
  size_t warm_slabs, retain, most; /* slices: HAKMEM_RETAIN and HAKMEM_RETAIN_MAX */
} Policy;

static uint64_t now_ms = (uint64_t)100 * WINDOW_MS;

static inline void pass_ms(uint64_t ms) {
  now_ms += ms;
  hak_purge_tick(now_ms);
}

/* Activity without a request for memory. A window that begins at a tick ends TICKS ticks later. */
static inline void pass_windows(size_t count) {
  for (size_t i = 0; i < count * TICKS; i++) {
    pass_ms(WINDOW_MS / TICKS);
  }
}

static inline void begin_window(void) {
  while (!hak_purge_window_ended()) {
    pass_ms(WINDOW_MS / TICKS);
  }
}

static inline void set_policy(Policy policy) {
  slices_begin_here();
  set_number("WARM_POOL_SIZE", policy.warm_slabs);
  set_number("RETAIN", (uint64_t)policy.retain << HAK_SLICE_SHIFT);
  set_number("RETAIN_MAX", (uint64_t)policy.most << HAK_SLICE_SHIFT);
  set_number("DECAY_MS", WINDOW_MS);
  begin_window();
}

static inline void give_and_take(char *base, size_t slices) {
  hak_arena_give(base, slices);
  CHECK(slices_take(slices) == base);
}

static inline size_t target(void) {
  return hak_arena_totals().target_slices;
}

/* The allowance beyond RETAIN: what demand has drawn, less what was idle. The peak limits it, too. */
static inline int64_t drawn(void) {
  return hak_arena.retention.balance;
}

/* Number of slices that were not resident when they were taken; each causes at least one page fault. */
static inline size_t fetched(void) {
  return hak_arena.retention.fetched;
}

static inline size_t purged(void) {
  return hak_arena.retention.purged;
}

static inline uint64_t give_back_calls(void) {
  hak_os_counts_t counts;
  hak_os_read_counts(&counts);
  return counts.madvise + counts.munmap;
}

/* Takes chunks without writing to them, so that no page becomes resident. */
static inline char *chunks_reserve(size_t chunks, size_t tail) {
  bool zeroed;
  char *base = hak_huge_chunks_take(chunks, tail, 1, false, &zeroed);
  CHECK(base != NULL);
  return base;
}

static inline char *slices_reserve(size_t slices) {
  bool zeroed;
  char *base = hak_arena_take(slices, 1, &zeroed);
  CHECK(base != NULL);
  return base;
}

enum { LITTLE = 16 };
static const Policy law = {.retain = LITTLE, .most = NO_MOST};

/* Takes and frees `chunks` twice. The second time fetches what was purged after the first. */
static inline void draw_twice(size_t chunks) {
  for (int round = 0; round < 2; round++) {
    hak_huge_chunks_give(chunks_reserve(chunks, 0));
  }
}

#endif
