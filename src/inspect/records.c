/* A record for each sampled block, found by its address; memory for sampled blocks. */
#include "records.h"

#include "blocks/blocks.h"

enum { BUCKETS_MIN = 256, BUCKETS_MAX = 1 << 22, GROWTH = 4 };

hak_lock_t hak_samples_lock = HAK_LOCK_INIT;
_Atomic(hak_records_t *) hak_records;
static hak_sample_t *only_bucket; /* serves until there is memory for more buckets */
static struct {
  hak_sample_t **bucket;
  size_t buckets, live; /* number of buckets, a power of two; number of records in them */
  hak_sample_t *unused;
} table = {.bucket = &only_bucket, .buckets = 1};
static _Atomic size_t out[HAK_BIN_COUNT] HAK_LARGE_DATA; /* live records by class; written under the lock */

static hak_sample_t **bucket_of(const void *block) {
  uint64_t hash = ((uintptr_t)block >> HAK_BLOCK_SHIFT) * 0x9e3779b97f4a7c15U;
  return &table.bucket[hash >> 32 & (table.buckets - 1)];
}

static void add_piece(hak_records_t *piece) {
  hak_lock(&hak_samples_lock);
  for (size_t i = 0; i < HAK_RECORDS; i++) {
    hak_record_drop_locked(&piece->sample[i]);
  }
  piece->next = atomic_load_explicit(&hak_records, memory_order_relaxed);
  atomic_store_explicit(&hak_records, piece, memory_order_release);
  hak_unlock(&hak_samples_lock);
}

static void link_locked(hak_sample_t *record) {
  hak_sample_t **bucket = bucket_of(record->block);
  record->next = *bucket;
  *bucket = record;
}

/* Grow the table. If there is no memory for it, searches take longer. The memory of the old table is lost; all old
 * tables together have at most a third of the size of the present one. */
static void grow_table(size_t buckets) {
  hak_sample_t **fresh = hak_meta_alloc(buckets * sizeof(void *));
  hak_lock(&hak_samples_lock);
  if (fresh && table.buckets < buckets) {
    hak_sample_t **old = table.bucket;
    size_t count = table.buckets;
    table.bucket = fresh;
    table.buckets = buckets;
    for (size_t i = 0; i < count; i++) {
      for (hak_sample_t *record = old[i], *next; record; record = next) {
        next = record->next;
        link_locked(record);
      }
    }
  }
  hak_unlock(&hak_samples_lock);
}

/* False: no memory for records. */
static bool stock(size_t buckets, size_t live) {
  if (buckets < BUCKETS_MIN) {
    grow_table(BUCKETS_MIN);
  } else if (live > buckets && buckets < BUCKETS_MAX) {
    grow_table(buckets * GROWTH);
  }
  hak_records_t *piece = hak_meta_alloc(sizeof *piece);
  if (piece) {
    add_piece(piece);
  }
  return piece != NULL;
}

hak_sample_t *hak_record_new_and_lock(void) {
  for (;;) {
    hak_lock(&hak_samples_lock);
    hak_sample_t *record = table.unused;
    if (record) {
      table.unused = record->next;
      return record;
    }
    size_t buckets = table.buckets, live = table.live;
    hak_unlock(&hak_samples_lock);
    if (!stock(buckets, live)) {
      return NULL;
    }
  }
}

void hak_record_drop_locked(hak_sample_t *record) {
  record->next = table.unused;
  table.unused = record;
}

static void count_locked(uint32_t cls, size_t more) {
  table.live += more;
  atomic_store_explicit(&out[cls], atomic_load_explicit(&out[cls], memory_order_relaxed) + more, memory_order_relaxed);
}

void hak_record_put_locked(hak_sample_t *record) {
  link_locked(record);
  record->live = 1;
  count_locked(record->cls, 1);
  if (record->piece) {
    hak_sampler_enter_piece_locked(record);
  }
}

/* The link to the block's record, or to NULL if there is none. */
static hak_sample_t **link_of(const void *block, const struct hak_piece *piece) {
  hak_sample_t **link = bucket_of(block);
  while (*link && ((*link)->block != block || (*link)->piece != piece)) {
    link = &(*link)->next;
  }
  return link;
}

hak_sample_t *hak_record_take_locked(const void *block, struct hak_piece *piece) {
  hak_sample_t **link = link_of(block, piece), *record = *link;
  if (record) {
    *link = record->next;
    record->live = 0;
    count_locked(record->cls, (size_t)-1);
  }
  if (record && piece) {
    hak_sampler_leave_piece_locked(record);
  }
  return record;
}

bool hak_record_find(const void *block, hak_sample_t *copy) {
  hak_lock(&hak_samples_lock);
  const hak_sample_t *record = *link_of(block, NULL);
  if (record) {
    *copy = *record;
  }
  hak_unlock(&hak_samples_lock);
  return record != NULL;
}

size_t hak_records_live(void) {
  return hak_lock_read(&hak_samples_lock, &table.live);
}

size_t hak_records_out(uint32_t cls) {
  return cls < HAK_RUN_FIRST ? atomic_load_explicit(&out[cls], memory_order_relaxed) : 0;
}

/* Memory for sampled blocks, in slices that hold nothing else. */

enum {
  SHIFT_MIN = 6,
  SHIFT_MAX = 12,
  SIZES = SHIFT_MAX - SHIFT_MIN + 1,
};

static struct {
  hak_slot_home_t *first[SIZES]; /* homes without a free slot come last */
  hak_slot_home_t *last[SIZES];
  void *dropped; /* homes without a slice */
} homes HAK_LARGE_DATA;

static uint32_t slots_in(const hak_slot_home_t *home) {
  return (uint32_t)HAK_SLICE_BYTES >> home->shift;
}
static bool has_some(const hak_slot_home_t *home) {
  return home->count > 0 || home->bump < slots_in(home);
}
static bool is_whole(const hak_slot_home_t *home) {
  return home->count == home->bump;
}

static void link_home_locked(hak_slot_home_t *home, bool first) {
  hak_slot_home_t **from = &homes.first[home->shift - SHIFT_MIN], **to = &homes.last[home->shift - SHIFT_MIN];
  home->next = first ? *from : NULL;
  home->prev = first ? NULL : *to;
  *(home->next ? &home->next->prev : to) = home;
  *(home->prev ? &home->prev->next : from) = home;
}

static void unlink_home_locked(hak_slot_home_t *home) {
  *(home->prev ? &home->prev->next : &homes.first[home->shift - SHIFT_MIN]) = home->next;
  *(home->next ? &home->next->prev : &homes.last[home->shift - SHIFT_MIN]) = home->prev;
}

static void put_slot_locked(hak_slot_home_t *home, size_t index) {
  hak_mark_free((void *)(home->base + (index << home->shift)));
  home->free[index / 64] |= 1ULL << index % 64;
  home->count++;
}

static void *take_slot_locked(hak_slot_home_t *home) {
  size_t w = 0;
  if (home->count == 0) {
    put_slot_locked(home, home->bump++);
  }
  while (!home->free[w]) {
    w++;
  }
  size_t index = w * 64 + (size_t)__builtin_ctzll(home->free[w]);
  home->free[w] &= home->free[w] - 1;
  home->count--;
  if (!has_some(home)) {
    unlink_home_locked(home);
    link_home_locked(home, false);
  }
  return home->base + (index << home->shift);
}

static void *take_slices(size_t slices, size_t align) {
  bool zeroed;
  char *base = hak_arena_take(slices, align, &zeroed);
  if (base) {
    hak_pagemap_set_class(base, 1, HAK_CLASS_SAMPLED);
  }
  return base;
}

static void give_slices(void *base, size_t slices) {
  hak_pagemap_set_class(base, 1, HAK_CLASS_NONE);
  hak_arena_give(base, slices);
}

/* False: no memory. */
static bool make_home(uint32_t shift) {
  hak_slot_home_t *home = hak_meta_take(&homes.dropped, sizeof *home);
  char *base = home ? take_slices(1, 1) : NULL;
  if (base) {
    hak_lock(&hak_samples_lock);
    *home = (hak_slot_home_t){.base = base, .shift = shift};
    link_home_locked(home, true);
    hak_unlock(&hak_samples_lock);
  } else if (home) {
    hak_meta_drop(&homes.dropped, home);
  }
  return base != NULL;
}

static hak_sample_t *take_slot(uint32_t shift, hak_sample_t *sample) {
  hak_sample_t *record;
  while ((record = hak_record_new_and_lock())) {
    hak_slot_home_t *home = homes.first[shift - SHIFT_MIN];
    if (home && has_some(home)) {
      sample->block = take_slot_locked(home);
      sample->home = home;
      break;
    }
    hak_record_drop_locked(record);
    hak_unlock(&hak_samples_lock);
    if (!make_home(shift)) {
      return NULL;
    }
  }
  return record;
}

static hak_sample_t *take_slices_for(hak_sample_t *sample) {
  size_t slices = hak_slices_for(hak_class_sizes[sample->cls]);
  sample->block = take_slices(slices, slices & -slices);
  hak_sample_t *record = sample->block ? hak_record_new_and_lock() : NULL;
  if (sample->block && !record) {
    give_slices(sample->block, slices);
  }
  return record;
}

static uint32_t shift_for(uint32_t cls) {
  uint32_t shift = 32 - (uint32_t)__builtin_clz(hak_class_sizes[cls] - 1);
  return shift < SHIFT_MIN ? SHIFT_MIN : shift;
}

hak_sample_t *hak_record_take_slot_and_lock(hak_sample_t *sample) {
  uint32_t shift = shift_for(sample->cls);
  hak_sample_t *record = shift > SHIFT_MAX ? take_slices_for(sample) : take_slot(shift, sample);
  if (record && sample->home && !hak_is_marked_free(sample->block) && !hak_misuse_is_reported()) {
    hak_unlock(&hak_samples_lock);
    hak_freed_damaged("malloc", sample->block);
  }
  if (record) {
    hak_mark_taken(sample->block);
  }
  return record;
}

bool hak_record_give_slot_locked(void *block, hak_slot_home_t *home) {
  if (!home) {
    return true;
  }
  put_slot_locked(home, (size_t)((const char *)block - home->base) >> home->shift);
  const hak_slot_home_t *first = homes.first[home->shift - SHIFT_MIN];
  bool other = first != home ? has_some(first) : home->next && has_some(home->next);
  unlink_home_locked(home);
  if (is_whole(home) && other) {
    return true;
  }
  link_home_locked(home, true);
  return false;
}

void hak_record_give_slices(void *block, uint32_t cls, hak_slot_home_t *home) {
  if (!home) {
    give_slices(block, hak_slices_for(hak_class_sizes[cls]));
    return;
  }
  give_slices(home->base, 1);
  hak_meta_drop(&homes.dropped, home);
}

void hak_records_release(void) {
  hak_slot_home_t *whole = NULL, *next;
  hak_lock(&hak_samples_lock);
  for (uint32_t i = 0; i < SIZES; i++) {
    for (hak_slot_home_t *home = homes.first[i]; home; home = next) {
      next = home->next;
      if (is_whole(home)) {
        unlink_home_locked(home);
        home->next = whole;
        whole = home;
      }
    }
  }
  hak_unlock(&hak_samples_lock);
  for (; whole; whole = next) {
    next = whole->next;
    hak_record_give_slices(NULL, 0, whole);
  }
}

hak_misuse_t hak_record_why(const void *address) {
  uintptr_t offset = (uintptr_t)address & (HAK_SLICE_BYTES - 1);
  hak_misuse_t why = offset == 0 ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_NOT_START;
  hak_lock(&hak_samples_lock);
  for (uint32_t i = 0; i < SIZES; i++) {
    for (const hak_slot_home_t *home = homes.first[i]; home; home = home->next) {
      if (home->base == (const char *)address - offset) {
        bool start = (offset & ((1U << home->shift) - 1)) == 0;
        why = !start                               ? HAK_MISUSE_NOT_START
              : offset >> home->shift < home->bump ? HAK_MISUSE_DOUBLE_FREE
                                                   : HAK_MISUSE_INVALID;
      }
    }
  }
  hak_unlock(&hak_samples_lock);
  return why;
}

void hak_record_check(void) {
  size_t live = 0;
  hak_lock(&hak_samples_lock);
  for (size_t i = 0; i < table.buckets; i++) {
    for (const hak_sample_t *record = table.bucket[i]; record; record = record->next, live++) {
      HAK_VERIFY(record->live && bucket_of(record->block) == &table.bucket[i]);
    }
  }
  HAK_VERIFY(live == table.live);
  for (uint32_t i = 0; i < SIZES; i++) {
    const hak_slot_home_t *before = NULL;
    for (const hak_slot_home_t *home = homes.first[i]; home; before = home, home = home->next) {
      uint32_t set = 0;
      for (uint32_t slot = 0; slot < slots_in(home); slot++) {
        bool is_free = home->free[slot / 64] >> slot % 64 & 1;
        set += is_free;
        HAK_VERIFY(!is_free || (slot < home->bump && hak_is_marked_free((void *)(home->base + (slot << home->shift)))));
      }
      HAK_VERIFY(home->shift == i + SHIFT_MIN && home->prev == before && home->count == set);
      HAK_VERIFY(hak_pagemap_class(home->base) == HAK_CLASS_SAMPLED && home->bump <= slots_in(home));
      HAK_VERIFY(!before || has_some(before) || !has_some(home));
    }
    HAK_VERIFY(homes.last[i] == before);
  }
  hak_unlock(&hak_samples_lock);
}
