/* The arena's counts, and adaptive retention: as much free memory stays resident as recent demand has drawn.
 * docs/design.md states the rules. */
#include "retain.h"

#include "arena.h"

hak_arena_t hak_arena = {.lock = HAK_LOCK_INIT};

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

static size_t peak_locked(const hak_retention_t *state) {
  return larger(state->most_used[0], state->most_used[1]);
}

static size_t most_at(size_t peak) {
  return peak + peak / HAK_PEAK_PART;
}

/* The allowance starts at RETAIN and adapts from there. The option may change at any time. */
static size_t allowance_locked(const hak_retention_t *state) {
  int64_t slices = (int64_t)hak_option_slices(HAK_OPTION_RETAIN) + state->balance;
  return slices > 0 ? (size_t)slices : 0;
}

/* How far use is below the trough: the load ends, and with it its refault cycles. */
static size_t fall_locked(const hak_retention_t *state) {
  return state->trough - smaller(state->trough, hak_arena.used_slices);
}

/* The count may be lower than `slices`: the limit was off at the time, or the process has forked since. */
void hak_retain_unreserve_locked(size_t slices) {
  hak_arena.reserved_slices -= slices < hak_arena.reserved_slices ? slices : hak_arena.reserved_slices;
}

static void raise_peak_locked(void) {
  size_t used = atomic_load_explicit(&hak_arena.used_slices, memory_order_relaxed) + hak_arena.apart_slices;
  hak_arena.peak_slices = larger(hak_arena.peak_slices, used);
}

/* Free memory that demand takes during this window was not idle in it. */
void hak_retain_count_used_locked(size_t slices, bool up) {
  hak_retention_t *state = &hak_arena.retention;
  size_t used = atomic_load_explicit(&hak_arena.used_slices, memory_order_relaxed);
  used = up ? used + slices : used - slices;
  if (up) {
    hak_retain_unreserve_locked(slices);
  }
  atomic_store_explicit(&hak_arena.used_slices, used, memory_order_relaxed);
  state->most_used[0] = larger(state->most_used[0], used);
  state->least_used[0] = smaller(state->least_used[0], used);
  state->least_free = smaller(state->least_free, hak_arena.dirty_slices);
  state->idle = smaller(state->idle, hak_arena.dirty_slices);
  raise_peak_locked();
}

size_t hak_retain_used_slices(void) {
  return atomic_load_explicit(&hak_arena.used_slices, memory_order_relaxed);
}

void hak_retain_count_apart(int64_t slices) {
  hak_lock(&hak_arena.lock);
  hak_retain_unreserve_locked(slices > 0 ? (size_t)slices : 0);
  hak_arena.apart_slices += (size_t)slices;
  raise_peak_locked();
  hak_unlock(&hak_arena.lock);
}

void hak_retain_fetch_locked(size_t slices, size_t row) {
  hak_retention_t *state = &hak_arena.retention;
  size_t early = smaller(slices, state->ghosts[0] + state->ghosts[1]), older = smaller(early, state->ghosts[1]);
  state->fetched += slices;
  if (early == 0 || row == 0 || row > larger(state->longest[0], state->longest[1])) {
    return;
  }
  state->ghosts[1] -= older;
  state->ghosts[0] -= early - older;
  size_t most = most_at(larger(peak_locked(state), hak_arena.used_slices + slices)), has = allowance_locked(state);
  state->balance += (int64_t)(has < most ? smaller(early, most - has) : 0);
  state->drew_ghosts = true;
  state->trough -= smaller(early, fall_locked(state)); /* the load goes on below its trough */
}

void hak_retain_purge_locked(size_t slices, size_t row) {
  hak_retention_t *state = &hak_arena.retention;
  state->purged += slices;
  state->ghosts[0] += row > 0 ? slices : 0;
  state->longest[0] = larger(state->longest[0], row);
  state->idle -= smaller(state->idle, slices);
  state->least_free -= smaller(state->least_free, slices);
}

void hak_retain_unpurge_locked(size_t slices) {
  hak_retention_t *state = &hak_arena.retention;
  size_t young = smaller(slices, state->ghosts[0]);
  state->purged -= slices;
  state->ghosts[0] -= young;
  state->ghosts[1] -= smaller(slices - young, state->ghosts[1]);
}

static size_t warm_pool(void) {
  return hak_option_size(HAK_OPTION_WARM_POOL) * HAK_SLAB_SLICES;
}

size_t hak_retain_target_locked(void) {
  const hak_retention_t *state = &hak_arena.retention;
  size_t most = most_at(peak_locked(state)), used = hak_arena.used_slices;
  size_t least = hak_option_slices(HAK_OPTION_RETAIN), below_peak = larger(least, most > used ? most - used : 0);
  size_t allowed = smaller(allowance_locked(state), below_peak);
  allowed -= smaller(allowed, fall_locked(state) * HAK_TROUGH_TIMES);
  return larger(warm_pool(), smaller(allowed, larger(least, hak_option_slices(HAK_OPTION_RETAIN_MAX))));
}

bool hak_retain_keeps_all(void) {
  return hak_option_size(HAK_OPTION_RETAIN) >= HAK_RETAIN_ALL || hak_os_is_strict();
}

static size_t beyond(size_t slices) {
  size_t free = hak_arena.dirty_slices, kept = slices + hak_arena.stuck_slices;
  return free > kept ? free - kept : 0;
}

size_t hak_retain_spare_locked(void) {
  bool stays = hak_retain_keeps_all() || hak_retain_is_locked() || hak_os_is_filtered();
  return stays ? 0 : beyond(larger(warm_pool(), hak_option_slices(HAK_OPTION_RETAIN)));
}

size_t hak_retain_surplus_locked(void) {
  return hak_retain_keeps_all()
             ? 0
             : larger(beyond(hak_retain_target_locked()), smaller(hak_arena.retention.idle, beyond(warm_pool())));
}

size_t hak_retain_batch_locked(size_t surplus, size_t given) {
  size_t more = smaller(hak_retain_target_locked() / HAK_BATCH_PART, HAK_PURGE_STEP);
  return given >= HAK_PURGE_STEP ? surplus : smaller(surplus + more, beyond(warm_pool()));
}

/* Ghosts outlive their two windows while demand still draws on them: a demand rebound may take longer on a slow
 * machine. */
static void end_window_locked(hak_retention_t *state) {
  size_t warm = warm_pool(); /* free on purpose, so it does not count as idle */
  state->idle = state->least_free > warm ? state->least_free - warm : 0;
  state->balance -= (int64_t)smaller(allowance_locked(state), state->idle);
  state->least_free = hak_arena.dirty_slices;
  state->ghosts[1] = state->ghosts[0] + (state->drew_ghosts ? state->ghosts[1] : 0);
  state->ghosts[0] = 0;
  state->longest[1] = larger(state->longest[0], state->drew_ghosts ? state->longest[1] : 0);
  state->longest[0] = 0;
  state->drew_ghosts = false;
  state->most_used[1] = state->most_used[0];
  state->most_used[0] = hak_arena.used_slices;
  state->trough = state->least_used[0];
  for (uint32_t i = HAK_TROUGH_WINDOWS - 1; i > 0; i--) {
    state->trough = smaller(state->trough, state->least_used[i]);
    state->least_used[i] = state->least_used[i - 1];
  }
  state->least_used[0] = hak_arena.used_slices;
}

bool hak_retain_tick_locked(uint64_t now_ms) {
  hak_retention_t *state = &hak_arena.retention;
  uint64_t window_ms = (uint64_t)hak_option(HAK_OPTION_DECAY);
  uint64_t passed_ms = now_ms > state->ticked_ms ? now_ms - state->ticked_ms : 0; /* another thread may be ahead */
  state->ticked_ms = larger(state->ticked_ms, now_ms);
  state->age_ms += smaller(passed_ms, (window_ms + 1) / HAK_PAUSE_PART);
  bool ends = state->age_ms >= window_ms;
  if (ends) {
    state->age_ms = 0;
    end_window_locked(state);
  }
  return ends;
}

bool hak_retain_has_fallen(void) {
  hak_lock(&hak_arena.lock);
  bool fallen = hak_arena.used_slices < peak_locked(&hak_arena.retention) / HAK_FALLEN_PART;
  hak_unlock(&hak_arena.lock);
  return fallen;
}
