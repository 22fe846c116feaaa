#include "arena_internal.h"
#include "options.h"

enum {
  LEAST_RISE = 8,  /* a smaller share of what use fell by, used again, does not count */
  BEYOND_PEAK = 4, /* what is learned exceeds the peak of use by such a part of it at most: one that grows by `realloc`
                      uses nothing of what is kept, and would leave as much each time */
  HALF = 2,
  QUARTER = 4,
  SWINGS_MAX = 4, /* a decay time: a GiB that a program may leave, then asleep, is enough, or two */
  DOUBLINGS_MAX = 4,
};

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

/* The most that was used in this decay time and the one before. */
static size_t high_locked(void) {
  return larger(hak_arena.high_slices[0], hak_arena.high_slices[1]);
}

/* What was resident when use had risen again, beyond what is used; the less of it the lower use falls below from where
 * it rose, and from half of that on nothing. */
static size_t rise_locked(const hak_rise_t *rise, size_t most) {
  size_t used = hak_arena.used_slices, resident = rise->resident + rise->rest;
  if (resident <= used || used < rise->from / 2) {
    return 0;
  }
  size_t more = smaller(resident - used, larger(most, used) + rise->rest);
  return used < rise->from ? more - more * 2 * (rise->from - used) / rise->from : more;
}

/* What rises again and again to the same height may leave more than what did so once: if it does not come back, as much
 * stays for nothing as it saved before. */
static size_t learned_locked(void) {
  size_t swings = hak_arena.swings[0] + hak_arena.swings[1];
  size_t most = hak_option_slices(HAK_OPTION_RETAIN_LEARNED) << smaller(larger(swings, 1) - 1, DOUBLINGS_MAX);
  /* Where all is resident at once, what a mapping brings beside a block was never used. */
  if (hak_arena.locked || most == 0) {
    return 0;
  }
  size_t learned = 0;
  for (size_t i = 0; i < HAK_RISES; i++) {
    learned = larger(learned, rise_locked(&hak_arena.rises[i], most));
  }
  return learned;
}

/* What is clean of chunks that blocks have a part of: the chunk that such a block leaves counts as dirty throughout. */
size_t hak_target_rest_locked(void) {
  return hak_arena.mapped_slices - hak_arena.clean_extent_slices - hak_arena.dirty_slices - hak_arena.used_slices;
}

static bool is_near(size_t used, size_t to) {
  return larger(used, to) - smaller(used, to) <= to / LEAST_RISE;
}

/* From below a quarter of the most to half of it, or from below half to nearly all. */
static void count_swing_locked(size_t used, size_t high) {
  if (used < high / HALF) {
    hak_arena.fell_below = used < high / QUARTER ? QUARTER : larger(hak_arena.fell_below, HALF);
  } else if (hak_arena.fell_below == QUARTER || (hak_arena.fell_below == HALF && is_near(used, high))) {
    hak_arena.fell_below = 0;
    hak_arena.swings[0] += hak_arena.swings[0] < SWINGS_MAX;
  }
}

/* Two with a gap between them are apart, or several with gaps of more than an eighth of where the first led. Of those
 * before the last, the one by which use rose the most says what is wanted again as far as that goes. */
static void count_rise_locked(hak_rise_t *rise, size_t low, size_t used) {
  size_t gaps = rise->gaps + (low > rise->to ? low - rise->to : 0);
  bool apart = gaps > rise->to / LEAST_RISE;
  if (apart && rise->to - rise->from >= rise[1].to - rise[1].from) {
    rise[1] = rise[0];
  }
  rise->gaps = apart ? 0 : gaps;
  rise->from = apart ? low : smaller(low, rise->from);
  if (used > rise->to) {
    rise->to = used;
    rise->resident = rise->rest = 0;
  }
}

void hak_target_use_locked(size_t used) {
  size_t low = hak_arena.low_slices, high = high_locked();
  hak_rise_t *rise = &hak_arena.rises[0];
  bool rises = used >= low && used <= high && (used - low) * LEAST_RISE > high - low;
  if (rises) {
    count_rise_locked(rise, low, used);
  } else if (used < low || used > high) {
    hak_arena.low_slices = used;
  }
  if ((rises || used > high) && is_near(used, rise->to)) {
    size_t most = larger(used, high + high / BEYOND_PEAK);
    size_t resident = smaller(used + hak_arena.dirty_slices, most), rest = smaller(hak_target_rest_locked(), used);
    if (resident + rest > rise->resident + rise->rest) {
      rise->resident = resident;
      rise->rest = rest;
    }
  }
  hak_arena.high_slices[0] = larger(hak_arena.high_slices[0], used);
  count_swing_locked(used, high);
}

bool hak_arena_has_fallen(void) {
  hak_lock(&hak_arena.lock);
  size_t high = high_locked();
  bool fallen = hak_arena.used_slices < high / 2;
  hak_unlock(&hak_arena.lock);
  return fallen;
}

void hak_target_grow_locked(size_t slices) {
  size_t high = high_locked();
  hak_arena.low_slices += slices * LEAST_RISE <= high ? slices : 0;
}

void hak_target_begin_locked(void) {
  for (size_t i = 0; i < HAK_RISES / 2; i++) {
    hak_arena.rises[i + HAK_RISES / 2] = hak_arena.rises[i];
    hak_arena.rises[i] = (hak_rise_t){0};
  }
  hak_arena.swings[1] = hak_arena.swings[0];
  hak_arena.swings[0] = 0;
  hak_arena.high_slices[1] = hak_arena.high_slices[0];
  hak_arena.high_slices[0] = hak_arena.used_slices;
}

size_t hak_target_locked(void) {
  size_t target = hak_option_size(HAK_OPTION_WARM_POOL) * HAK_SLAB_SLICES;
  size_t share = hak_arena.used_slices * hak_option_size(HAK_OPTION_RETAIN_SHARE) / 100;
  size_t cached = hak_arena_cached_bytes() >> HAK_SLICE_SHIFT;
  size_t retain = hak_option_slices(HAK_OPTION_RETAIN), least = retain > cached ? retain - cached : 0;
  hak_arena.learned_slices = learned_locked();
  return larger(larger(target, least), share + hak_arena.learned_slices);
}

bool hak_target_promise(size_t slices) {
  size_t limit = hak_option_slices(HAK_OPTION_MEMORY_LIMIT);
  if (HAK_LIKELY(hak_option(HAK_OPTION_MEMORY_LIMIT) == 0)) {
    return true;
  }
  for (bool purged = false;; purged = true) {
    hak_lock(&hak_arena.lock);
    size_t used = hak_arena.used_slices + hak_arena.promised_slices;
    bool fits = used + hak_arena.dirty_slices + slices <= limit;
    hak_arena.promised_slices += fits ? slices : 0;
    hak_unlock(&hak_arena.lock);
    if (fits || used + slices > limit || purged) {
      return fits;
    }
    hak_arena_purge(limit - slices - used);
  }
}

/* There may be less than that: the limit was not in force, or the process has forked since. */
void hak_target_end_promise_locked(size_t slices) {
  hak_arena.promised_slices -= slices < hak_arena.promised_slices ? slices : hak_arena.promised_slices;
}

void hak_target_end_promise(size_t slices) {
  hak_lock(&hak_arena.lock);
  hak_target_end_promise_locked(slices);
  hak_unlock(&hak_arena.lock);
}
