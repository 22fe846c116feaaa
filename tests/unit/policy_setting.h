/* The release policy of one test, and a look at what follows from it. */
#ifndef HAK_TEST_POLICY_H
#define HAK_TEST_POLICY_H

#include "setting.h"
#include "slices.h"

enum { SLAB = HAK_SLAB_SLICES, DECAY_MS = 1000 };

typedef struct Policy {
  size_t warm_slabs, retain_slices, percent, learned_slices;
} Policy;

static inline void set_policy(Policy policy) {
  slices_begin_here();
  set_number("WARM_POOL_SIZE", policy.warm_slabs);
  set_number("RETAIN", (uint64_t)policy.retain_slices << HAK_SLICE_SHIFT);
  set_number("RETAIN_PERCENT", policy.percent);
  set_number("RETAIN_LEARNED", (uint64_t)policy.learned_slices << HAK_SLICE_SHIFT);
  set_number("DECAY_MS", DECAY_MS);
}

static inline void decay_times(uint64_t count) {
  static uint64_t now_ms = 5 * DECAY_MS;
  for (; count > 0; count--) {
    now_ms += DECAY_MS;
    CHECK(hak_arena_decay(now_ms));
    CHECK(!hak_arena_decay(now_ms + DECAY_MS - 1));
  }
}

static inline void give_and_take(char *base, size_t slices) {
  hak_arena_give(base, slices);
  CHECK(slices_take(slices) == base);
}

static inline size_t target(void) {
  return hak_arena_totals().target_slices;
}

static inline uint64_t give_back_calls(void) {
  hak_os_counts_t counts;
  hak_os_read_counts(&counts);
  return counts.madvise + counts.munmap;
}

#endif
