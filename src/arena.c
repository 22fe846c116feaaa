#include "arena.h"

#include "arena_internal.h"
#include "options.h"
#include "os.h"

hak_arena_t hak_arena = {.lock = HAK_LOCK_INIT};

static uint32_t mask_of(size_t first_bit, size_t bits) {
  return (uint32_t)((((uint64_t)1 << bits) - 1) << first_bit);
}

static unsigned longest_run(uint32_t mask) {
  unsigned run = 0;
  while (mask) {
    mask &= mask << 1;
    run++;
  }
  return run;
}

void hak_arena_refresh(size_t index) {
  hak_slot_t *slot = &hak_window.slots[index];
  unsigned run = longest_run(slot->free);
  slot->run = (uint8_t)run;
  slot->dirty_units = (uint8_t)__builtin_popcount(slot->free & slot->dirty);
  for (unsigned k = 1; k <= run; k++) {
    hak_arena.low[k] = hak_arena.low[k] < index ? hak_arena.low[k] : index;
  }
  if (slot->dirty_units && index < hak_arena.low_dirty) {
    hak_arena.low_dirty = index;
  }
}

/* One step over the slots that [first, first + units) touches: the slot at `*first`, and the part of it. */
typedef struct part {
  size_t index;
  hak_slot_t *slot;
  uint32_t mask;
} part_t;

static part_t next_part(size_t *first, size_t *units) {
  size_t slot = *first / HAK_SLOT_UNITS, bit = *first % HAK_SLOT_UNITS;
  size_t here = HAK_SLOT_UNITS - bit < *units ? HAK_SLOT_UNITS - bit : *units;
  *first += here;
  *units -= here;
  return (part_t){slot, &hak_window.slots[slot], mask_of(bit, here)};
}

static void take_range(size_t first, size_t units, bool *zeroed) {
  size_t regretted = 0;
  atomic_store_explicit(&hak_arena.used_units, hak_arena.used_units + units, memory_order_relaxed);
  if (hak_arena.peak_units < hak_arena.used_units) {
    hak_arena.peak_units = hak_arena.used_units;
  }
  while (units > 0) {
    part_t part = next_part(&first, &units);
    uint32_t dirty = part.slot->dirty & part.mask;
    *zeroed &= dirty == 0;
    hak_arena.dirty_units -= (size_t)__builtin_popcount(dirty);
    regretted += (size_t)__builtin_popcount(part.slot->purged & part.mask);
    part.slot->free &= ~part.mask;
    part.slot->dirty |= part.mask;
    part.slot->purged &= ~part.mask;
    part.slot->aged &= ~part.mask;
    hak_arena_refresh(part.index);
  }
  if (regretted) {
    hak_release_regret_locked(regretted);
  }
}

/* Lowest bit where a run of `units` begins at a multiple of `align` inside the slot; HAK_SLOT_UNITS when none does. */
static size_t run_in_mask(uint32_t mask, size_t units, size_t align) {
  for (size_t bit = 0; bit + units <= HAK_SLOT_UNITS; bit += align) {
    uint32_t wanted = mask_of(bit, units);
    if ((mask & wanted) == wanted) {
      return bit;
    }
  }
  return HAK_SLOT_UNITS;
}

/* A dirty unit is resident already: reuse one before any clean one becomes resident. */
static size_t find_dirty_unit(void) {
  size_t i = hak_arena.low_dirty;
  while (i < hak_window.slots_used && hak_window.slots[i].dirty_units == 0) {
    i++;
  }
  hak_arena.low_dirty = i;
  HAK_ASSERT(i < hak_window.slots_used); /* the caller saw dirty_units > 0 */
  return i * HAK_SLOT_UNITS + (size_t)__builtin_ctz(hak_window.slots[i].free & hak_window.slots[i].dirty);
}

static size_t find_in_slots(size_t units, size_t align) {
  size_t i = hak_arena.low[units];
  while (i < hak_window.slots_used && hak_window.slots[i].run < units) {
    i++;
  }
  hak_arena.low[units] = i;
  for (; i < hak_window.slots_used; i++) {
    if (hak_window.slots[i].run >= units) {
      size_t bit = run_in_mask(hak_window.slots[i].free, units, align);
      if (bit < HAK_SLOT_UNITS) {
        return i * HAK_SLOT_UNITS + bit;
      }
    }
  }
  return HAK_ARENA_NONE;
}

static bool slot_is_all_free(size_t i) {
  if (i >= hak_window.slots_used) {
    return true;
  }
  const hak_slot_t *slot = &hak_window.slots[i];
  return slot->state == HAK_SLOT_UNMAPPED || (slot->state == HAK_SLOT_MAPPED && slot->run == HAK_SLOT_UNITS);
}

static size_t find_slots(size_t count, size_t align_slots) {
  size_t base_slot = hak_window.base >> HAK_SLOT_SHIFT;
  size_t all = hak_window_slots();
  size_t i = 0;
  while (i + count <= all) {
    size_t misaligned = (base_slot + i) & (align_slots - 1);
    if (misaligned) {
      i += align_slots - misaligned;
      continue;
    }
    size_t n = 0;
    while (n < count && i + count <= all && slot_is_all_free(i + n)) {
      n++;
    }
    if (n == count) {
      return i;
    }
    i += n + 1;
  }
  return HAK_ARENA_NONE;
}

static bool map_slots(size_t first, size_t count, bool *occupied) {
  size_t used = hak_arena.used_units;
  bool huge = hak_options.huge_pages && used >= hak_options.huge_pages_from_units;
  size_t before = 0, after = 0;
  size_t known = hak_window.slots_used;
  for (size_t i = first; i < first + count && i < known; i++) {
    before += hak_window.slots[i].state == HAK_SLOT_MAPPED;
  }
  bool ok = hak_window_map(first, count, huge, occupied);
  for (size_t i = first; i < first + count && i < hak_window.slots_used; i++) {
    if (hak_window.slots[i].state == HAK_SLOT_MAPPED) {
      after++;
      hak_arena_refresh(i);
    }
  }
  hak_arena.mapped_slots += after - before;
  return ok;
}

static size_t lowest_unmapped(void) {
  size_t i = hak_arena.low_unmapped;
  while (i < hak_window.slots_used && hak_window.slots[i].state != HAK_SLOT_UNMAPPED) {
    i++;
  }
  hak_arena.low_unmapped = i;
  return i;
}

static size_t find_and_map(size_t units, size_t align_units) {
  if (units == 1 && align_units == 1 && hak_arena.dirty_units > 0) {
    return find_dirty_unit();
  }
  bool in_one_slot = units <= HAK_SLOT_UNITS && align_units <= HAK_SLOT_UNITS;
  if (in_one_slot) {
    size_t found = find_in_slots(units, align_units);
    if (found != HAK_ARENA_NONE) {
      return found;
    }
  }
  size_t count = (units + HAK_SLOT_UNITS - 1) / HAK_SLOT_UNITS;
  size_t align_slots = align_units > HAK_SLOT_UNITS ? align_units / HAK_SLOT_UNITS : 1;
  bool occupied = true;
  while (occupied) {
    size_t slot = in_one_slot ? lowest_unmapped() : find_slots(count, align_slots);
    if (slot == HAK_ARENA_NONE || slot + count > hak_window_slots()) {
      return HAK_ARENA_NONE;
    }
    if (map_slots(slot, count, &occupied)) {
      return slot * HAK_SLOT_UNITS;
    }
  }
  return HAK_ARENA_NONE;
}

static bool within_limit(size_t units) {
  size_t limit = hak_options.memory_limit_units;
  if (limit == 0 || hak_arena.used_units + hak_arena.dirty_units + units <= limit) {
    return true;
  }
  if (hak_arena.used_units + units > limit) {
    return false;
  }
  hak_release_down_to_locked(limit - units - hak_arena.used_units);
  return hak_arena.used_units + hak_arena.dirty_units + units <= limit;
}

size_t hak_arena_take(size_t units, size_t align_units, bool *zeroed) {
  size_t found = HAK_ARENA_NONE;
  *zeroed = true;
  hak_lock(&hak_arena.lock);
  if ((hak_window.units > 0 || hak_window_create()) && units <= hak_window.units && within_limit(units)) {
    found = find_and_map(units, align_units);
    bool plausible = units <= HAK_SLOT_UNITS || units / 4 <= hak_arena.dirty_units;
    if (found == HAK_ARENA_NONE && plausible && hak_release_down_to_locked(0)) { /* whole slots leave room */
      found = find_and_map(units, align_units);
    }
  }
  if (found != HAK_ARENA_NONE && !hak_window_describe(found / HAK_SLOT_UNITS)) {
    found = HAK_ARENA_NONE;
  }
  if (found != HAK_ARENA_NONE) {
    take_range(found, units, zeroed);
  }
  hak_unlock(&hak_arena.lock);
  return found;
}

void hak_arena_give(size_t first, size_t units) {
  hak_lock(&hak_arena.lock);
  atomic_store_explicit(&hak_arena.used_units, hak_arena.used_units - units, memory_order_relaxed);
  hak_arena.dirty_units += units;
  while (units > 0) {
    part_t part = next_part(&first, &units);
    HAK_ASSERT((part.slot->free & part.mask) == 0);
    part.slot->free |= part.mask;
    hak_arena_refresh(part.index);
  }
  hak_release_after_give_locked();
  hak_unlock(&hak_arena.lock);
}

/* Every unit of the range is free, or lies in a slot that could be mapped. */
static bool could_be_taken(size_t first, size_t units) {
  while (units > 0) {
    if (first / HAK_SLOT_UNITS >= hak_window.slots_used) {
      return true;
    }
    part_t part = next_part(&first, &units);
    bool is_free = part.slot->state == HAK_SLOT_MAPPED && (part.slot->free & part.mask) == part.mask;
    if (!is_free && part.slot->state != HAK_SLOT_UNMAPPED) {
      return false;
    }
  }
  return true;
}

bool hak_arena_extend(size_t first, size_t units, size_t more) {
  bool zeroed = true, occupied;
  size_t begin = first + units, end = begin + more;
  hak_lock(&hak_arena.lock);
  bool ok = end <= hak_window.units && within_limit(more) && could_be_taken(begin, more);
  if (ok) {
    size_t slot = begin / HAK_SLOT_UNITS;
    ok = map_slots(slot, (end + HAK_SLOT_UNITS - 1) / HAK_SLOT_UNITS - slot, &occupied);
  }
  if (ok) {
    take_range(begin, more, &zeroed);
  }
  hak_unlock(&hak_arena.lock);
  return ok;
}

bool hak_arena_is_free(size_t unit) {
  hak_lock(&hak_arena.lock);
  size_t slot = unit / HAK_SLOT_UNITS;
  bool is_free = slot >= hak_window.slots_used || hak_window.slots[slot].state != HAK_SLOT_MAPPED ||
                 (hak_window.slots[slot].free >> unit % HAK_SLOT_UNITS & 1);
  hak_unlock(&hak_arena.lock);
  return is_free;
}

size_t hak_arena_used_units(void) {
  return atomic_load_explicit(&hak_arena.used_units, memory_order_relaxed);
}

hak_arena_totals_t hak_arena_totals(void) {
  hak_lock(&hak_arena.lock);
  hak_arena_totals_t totals = {.used_units = hak_arena.used_units,
                               .dirty_units = hak_arena.dirty_units,
                               .allowance_units = hak_release_allowance_locked(),
                               .mapped_slots = hak_arena.mapped_slots,
                               .slots_used = hak_window.slots_used,
                               .slots_mapped = hak_arena.mapped_slots + hak_arena.unmapped_ever,
                               .slots_unmapped = hak_arena.unmapped_ever};
  hak_unlock(&hak_arena.lock);
  return totals;
}

void hak_arena_check(void) {
  size_t used = 0, dirty = 0, mapped = 0;
  hak_lock(&hak_arena.lock);
  for (size_t i = 0; i < hak_window.slots_used; i++) {
    const hak_slot_t *slot = &hak_window.slots[i];
    if (slot->state != HAK_SLOT_MAPPED) {
      continue;
    }
    mapped++;
    used += (size_t)__builtin_popcount(~slot->free);
    dirty += (size_t)__builtin_popcount(slot->free & slot->dirty);
    HAK_VERIFY(slot->run == longest_run(slot->free));
    HAK_VERIFY((slot->aged & ~(slot->free & slot->dirty)) == 0);
    for (size_t bit = 0; bit < HAK_SLOT_UNITS; bit++) {
      HAK_VERIFY(!(slot->free >> bit & 1) || hak_window.classes[i * HAK_SLOT_UNITS + bit] == HAK_CLASS_NONE);
    }
  }
  HAK_VERIFY(used == hak_arena.used_units);
  HAK_VERIFY(dirty == hak_arena.dirty_units);
  HAK_VERIFY(mapped == hak_arena.mapped_slots);
  hak_unlock(&hak_arena.lock);
}

void hak_arena_fork_lock(void) {
  hak_lock(&hak_arena.lock);
}

void hak_arena_fork_unlock(bool in_child) {
  if (in_child) {
    hak_lock_reset(&hak_arena.lock);
  } else {
    hak_unlock(&hak_arena.lock);
  }
}
