#include "arena_internal.h"
#include "options.h"
#include "os.h"

/* Give back the units of `mask` in one slot, run by run; returns those that are given back. */
static uint32_t discard_units(size_t slot, uint32_t mask) {
  uint32_t done = 0;
  while (mask) {
    unsigned first = (unsigned)__builtin_ctz(mask);
    uint32_t rest = ~(mask >> first);
    unsigned length = rest ? (unsigned)__builtin_ctz(rest) : HAK_SLOT_UNITS - first;
    uint32_t run = (uint32_t)((((uint64_t)1 << length) - 1) << first);
    if (hak_os_discard(hak_window_address(slot * HAK_SLOT_UNITS + first), (size_t)length << HAK_UNIT_SHIFT)) {
      done |= run;
    }
    mask &= ~run;
  }
  return done;
}

/* `which` must be free and dirty. Returns the number of units given back. */
static size_t purge_slot(size_t index, uint32_t which) {
  hak_slot_t *slot = &hak_window.slots[index];
  size_t dirty_before = slot->dirty_units;
  uint32_t done;
  if (slot->free == UINT32_MAX && which == slot->dirty && hak_window_unmap(index)) {
    done = which;
    hak_arena.mapped_slots--;
    hak_arena.unmapped_ever++;
    hak_arena.low_unmapped = hak_arena.low_unmapped < index ? hak_arena.low_unmapped : index;
  } else {
    done = discard_units(index, which);
    slot->dirty &= ~done;
    slot->aged &= ~done;
  }
  slot->purged |= done;
  hak_arena_refresh(index);
  hak_arena.dirty_units -= dirty_before - slot->dirty_units;
  size_t units = (size_t)__builtin_popcount(done);
  hak_arena.given_back_units += units;
  return units;
}

size_t hak_release_allowance_locked(void) {
  size_t allowance = hak_options.warm_pool_units;
  size_t share = hak_arena.used_units * hak_options.retain_percent / 100;
  allowance = allowance > hak_options.retain_units ? allowance : hak_options.retain_units;
  allowance = allowance > share ? allowance : share;
  return allowance > hak_arena.learned_units ? allowance : hak_arena.learned_units;
}

bool hak_release_down_to_locked(size_t keep_units) {
  bool any = false;
  for (size_t i = hak_window.slots_used; i-- > 0 && hak_arena.dirty_units > keep_units;) {
    hak_slot_t *slot = &hak_window.slots[i];
    if (slot->dirty_units > 0) {
      any |= purge_slot(i, slot->free & slot->dirty) > 0;
    }
  }
  return any;
}

void hak_release_regret_locked(size_t units) {
  hak_arena.regretted_units += units;
  if (hak_arena.regretted_units * 2 < hak_arena.given_back_units) {
    return;
  }
  size_t learned = hak_release_allowance_locked() * 2;
  size_t most = hak_options.retain_learned_units;
  most = most < hak_arena.peak_units ? most : hak_arena.peak_units;
  hak_arena.learned_units = learned < most ? learned : most;
  hak_arena.given_back_units = hak_arena.regretted_units = 0;
}

/* What was free and dirty all through the last epoch goes; what is so now is watched through the next. */
static void begin_epoch_locked(uint64_t now_ms) {
  bool regretted = hak_arena.regretted_units > 0;
  hak_arena.epoch_ms = now_ms;
  hak_arena.stuck_units = 0;
  for (size_t i = 0; i < hak_window.slots_used; i++) {
    hak_slot_t *slot = &hak_window.slots[i];
    slot->purged = 0;
    if (slot->state != HAK_SLOT_MAPPED) {
      continue;
    }
    if (slot->aged && hak_arena.dirty_units > hak_options.warm_pool_units) {
      purge_slot(i, slot->aged);
    }
    if (slot->state == HAK_SLOT_MAPPED) {
      slot->aged = slot->free & slot->dirty;
    }
  }
  if (!regretted) {
    hak_arena.learned_units /= 2;
  }
  hak_arena.given_back_units = hak_arena.regretted_units = 0;
}

static void decay_locked(uint64_t now_ms) {
  /* The caller may have read the clock before another thread began the epoch. */
  if ((int64_t)(now_ms - hak_arena.epoch_ms) >= (int64_t)hak_options.decay_ms) {
    begin_epoch_locked(now_ms);
  }
}

void hak_release_after_give_locked(void) {
  size_t allowance = hak_release_allowance_locked();
  if (hak_arena.dirty_units > allowance + hak_arena.stuck_units) {
    bool any = hak_release_down_to_locked(allowance / 2);
    hak_arena.stuck_units = any ? 0 : hak_arena.dirty_units; /* locked memory, say: not again at every give */
  }
  decay_locked(hak_os_now_ms());
}

void hak_arena_decay(uint64_t now_ms) {
  hak_lock(&hak_arena.lock);
  decay_locked(now_ms);
  hak_unlock(&hak_arena.lock);
}

bool hak_arena_purge(size_t keep_units) {
  hak_lock(&hak_arena.lock);
  bool any = hak_release_down_to_locked(keep_units);
  hak_unlock(&hak_arena.lock);
  return any;
}
