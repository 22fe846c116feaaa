/* A record for each sampled block, found by its address. */
#include "records.h"

#include "system/meta.h"

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
}

/* The link to the block's record, or to NULL if there is none. */
static hak_sample_t **link_of(const void *block) {
  hak_sample_t **link = bucket_of(block);
  while (*link && (*link)->block != block) {
    link = &(*link)->next;
  }
  return link;
}

hak_sample_t *hak_record_take_locked(const void *block) {
  hak_sample_t **link = link_of(block), *record = *link;
  if (record) {
    *link = record->next;
    record->live = 0;
    count_locked(record->cls, (size_t)-1);
  }
  return record;
}

bool hak_record_find(const void *block, hak_sample_t *copy) {
  hak_lock(&hak_samples_lock);
  const hak_sample_t *record = *link_of(block);
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

void hak_record_check(void) {
  size_t live = 0;
  hak_lock(&hak_samples_lock);
  for (size_t i = 0; i < table.buckets; i++) {
    for (const hak_sample_t *record = table.bucket[i]; record; record = record->next, live++) {
      HAK_VERIFY(record->live && bucket_of(record->block) == &table.bucket[i]);
    }
  }
  HAK_VERIFY(live == table.live);
  hak_unlock(&hak_samples_lock);
}
