#include "slots.h"

#include "arena.h"
#include "meta.h"
#include "pagemap.h"
#include "slab.h"

enum {
  SHIFT_MIN = 6,
  SHIFT_MAX = 12,
  SIZES = SHIFT_MAX - SHIFT_MIN + 1,
};

static struct {
  hak_slot_home_t *first[SIZES]; /* those without a free slot come last */
  hak_slot_home_t *last[SIZES];
  hak_slot_home_t *unused;
} homes;
static _Atomic size_t out[HAK_RUN_FIRST], slices_held;

static uint32_t slots_in(const hak_slot_home_t *home) {
  return (uint32_t)HAK_SLICE_BYTES >> home->shift;
}
static bool has_some(const hak_slot_home_t *home) {
  return home->count > 0 || home->carved < slots_in(home);
}
static bool is_whole(const hak_slot_home_t *home) {
  return home->count == home->carved;
}

void hak_slot_count_locked(uint32_t cls, size_t blocks) {
  size_t before = atomic_load_explicit(&out[cls], memory_order_relaxed);
  atomic_store_explicit(&out[cls], before + blocks, memory_order_relaxed);
}

static void link_locked(hak_slot_home_t *home, bool first) {
  hak_slot_home_t **from = &homes.first[home->shift - SHIFT_MIN], **to = &homes.last[home->shift - SHIFT_MIN];
  home->next = first ? *from : NULL;
  home->prev = first ? NULL : *to;
  *(home->next ? &home->next->prev : to) = home;
  *(home->prev ? &home->prev->next : from) = home;
}

static void unlink_locked(hak_slot_home_t *home) {
  *(home->prev ? &home->prev->next : &homes.first[home->shift - SHIFT_MIN]) = home->next;
  *(home->next ? &home->next->prev : &homes.last[home->shift - SHIFT_MIN]) = home->prev;
}

/* *used: it was before, so its tag is to be looked at. */
static void *take_slot_locked(hak_slot_home_t *home, bool *used) {
  uint32_t index = home->carved;
  *used = home->count > 0;
  if (*used) {
    uint32_t w = 0;
    while (!home->free[w]) {
      w++;
    }
    index = w * 64 + (uint32_t)__builtin_ctzll(home->free[w]);
    home->free[w] &= home->free[w] - 1;
    home->count--;
  } else {
    home->carved++;
  }
  if (!has_some(home)) {
    unlink_locked(home);
    link_locked(home, false);
  }
  return home->base + ((size_t)index << home->shift);
}

static void *take_slices(size_t slices, size_t align) {
  bool zeroed;
  char *base = hak_arena_take(slices, align, &zeroed);
  if (base) {
    atomic_fetch_add_explicit(&slices_held, slices, memory_order_relaxed);
    hak_set_class(base, 1, HAK_CLASS_SAMPLED);
  }
  return base;
}

static void give_slices(void *base, size_t slices) {
  atomic_fetch_sub_explicit(&slices_held, slices, memory_order_relaxed);
  hak_set_class(base, 1, HAK_CLASS_NONE);
  hak_arena_give(base, slices);
}

static void spare_home(hak_slot_home_t *home) {
  hak_lock(&hak_samples_lock);
  home->next = homes.unused;
  homes.unused = home;
  hak_unlock(&hak_samples_lock);
}

/* Not listed yet. NULL: no memory. */
static hak_slot_home_t *make_home(uint32_t shift) {
  hak_lock(&hak_samples_lock);
  hak_slot_home_t *home = homes.unused;
  homes.unused = home ? home->next : NULL;
  hak_unlock(&hak_samples_lock);
  home = home ? home : hak_meta_alloc(sizeof *home);
  if (!home) {
    return NULL;
  }
  *home = (hak_slot_home_t){.base = take_slices(1, 1), .shift = shift};
  if (!home->base) {
    spare_home(home);
    return NULL;
  }
  return home;
}

/* Unlike the others the lock is held afterwards, if there is one. */
static hak_sample_t *take_slot(uint32_t shift, hak_sample_t *sample, bool *used) {
  hak_slot_home_t *fresh = NULL, *home;
  for (hak_sample_t *record = NULL;;) {
    hak_lock(&hak_samples_lock);
    if (fresh) {
      link_locked(fresh, true);
    }
    record = record ? record : hak_record_new_locked();
    home = homes.first[shift - SHIFT_MIN];
    bool some = home && has_some(home);
    if (record && some) {
      sample->block = take_slot_locked(home, used);
      sample->home = home;
      return record;
    }
    hak_unlock(&hak_samples_lock);
    fresh = NULL;
    if (!record && !(record = hak_record_new())) {
      return NULL;
    }
    if (!some && !(fresh = make_home(shift))) {
      hak_record_drop(record);
      return NULL;
    }
  }
}

static hak_sample_t *take_slices_for(uint32_t cls, hak_sample_t *sample) {
  size_t slices = hak_slices_for(hak_class_sizes[cls]);
  hak_sample_t *record = hak_record_new();
  sample->home = NULL;
  sample->block = record ? take_slices(slices, slices & -slices) : NULL;
  if (!sample->block) {
    if (record) {
      hak_record_drop(record);
    }
    return NULL;
  }
  hak_lock(&hak_samples_lock);
  return record;
}

static uint32_t shift_for(uint32_t cls) {
  uint32_t shift = 32 - (uint32_t)__builtin_clz(hak_class_sizes[cls] - 1);
  return shift < SHIFT_MIN ? SHIFT_MIN : shift;
}

hak_sample_t *hak_slot_take_and_lock(uint32_t cls, hak_sample_t *sample) {
  bool used = false;
  uint32_t shift = shift_for(cls);
  hak_sample_t *record = shift > SHIFT_MAX ? take_slices_for(cls, sample) : take_slot(shift, sample, &used);
  if (record && used && !hak_is_marked_free(sample->block)) {
    hak_unlock(&hak_samples_lock);
    hak_slab_damaged("malloc", sample->block);
  }
  if (record) {
    hak_slot_count_locked(cls, 1);
    hak_mark_taken(sample->block);
  }
  return record;
}

bool hak_slot_give_locked(void *block, uint32_t cls, hak_slot_home_t *home) {
  hak_slot_count_locked(cls, (size_t)-1);
  if (!home) {
    return true;
  }
  hak_mark_free(block);
  size_t index = (size_t)((const char *)block - home->base) >> home->shift;
  home->free[index / 64] |= 1ULL << index % 64;
  home->count++;
  const hak_slot_home_t *first = homes.first[home->shift - SHIFT_MIN];
  bool other = first != home ? has_some(first) : home->next && has_some(home->next);
  unlink_locked(home);
  if (is_whole(home) && other) {
    return true;
  }
  link_locked(home, true);
  return false;
}

void hak_slot_give_slices(void *block, uint32_t cls, hak_slot_home_t *home) {
  if (!home) {
    give_slices(block, hak_slices_for(hak_class_sizes[cls]));
    return;
  }
  give_slices(home->base, 1);
  spare_home(home);
}

/* Out of its list. NULL: none of the size is whole. */
static hak_slot_home_t *take_whole(uint32_t size) {
  hak_lock(&hak_samples_lock);
  hak_slot_home_t *home = homes.first[size];
  while (home && !is_whole(home)) {
    home = home->next;
  }
  if (home) {
    unlink_locked(home);
  }
  hak_unlock(&hak_samples_lock);
  return home;
}

void hak_slots_release(void) {
  for (uint32_t i = 0; i < SIZES; i++) {
    for (hak_slot_home_t *home; (home = take_whole(i));) {
      hak_slot_give_slices(NULL, 0, home);
    }
  }
}

hak_misuse_t hak_slot_why(const void *address) {
  uintptr_t offset = (uintptr_t)address & (HAK_SLICE_BYTES - 1);
  hak_misuse_t why = offset == 0 ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_NOT_START;
  hak_lock(&hak_samples_lock);
  for (uint32_t i = 0; i < SIZES; i++) {
    for (const hak_slot_home_t *home = homes.first[i]; home; home = home->next) {
      if (home->base == (const char *)address - offset) {
        bool start = (offset & ((1U << home->shift) - 1)) == 0;
        why = !start                                 ? HAK_MISUSE_NOT_START
              : offset >> home->shift < home->carved ? HAK_MISUSE_DOUBLE_FREE
                                                     : HAK_MISUSE_INVALID;
      }
    }
  }
  hak_unlock(&hak_samples_lock);
  return why;
}

size_t hak_slots_out(uint32_t cls) {
  return cls < HAK_RUN_FIRST ? atomic_load_explicit(&out[cls], memory_order_relaxed) : 0;
}

size_t hak_slot_bytes(void) {
  return atomic_load_explicit(&slices_held, memory_order_relaxed) << HAK_SLICE_SHIFT;
}

void hak_slot_check(void) {
  hak_lock(&hak_samples_lock);
  for (uint32_t i = 0; i < SIZES; i++) {
    const hak_slot_home_t *before = NULL;
    for (const hak_slot_home_t *home = homes.first[i]; home; before = home, home = home->next) {
      uint32_t set = 0;
      for (uint32_t slot = 0; slot < slots_in(home); slot++) {
        bool is_free = home->free[slot / 64] >> slot % 64 & 1;
        set += is_free;
        HAK_VERIFY(!is_free ||
                   (slot < home->carved && hak_is_marked_free((void *)(home->base + (slot << home->shift)))));
      }
      HAK_VERIFY(home->shift == i + SHIFT_MIN && home->prev == before && home->count == set);
      HAK_VERIFY(hak_class_at(home->base) == HAK_CLASS_SAMPLED && home->carved <= slots_in(home));
      HAK_VERIFY(!before || has_some(before) || !has_some(home));
    }
    HAK_VERIFY(homes.last[i] == before);
  }
  hak_unlock(&hak_samples_lock);
}
