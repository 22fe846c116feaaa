#include "records.h"

#include "meta.h"

enum { BUCKETS_MIN = 256, BUCKETS_MAX = 1 << 22, GROWTH = 4 };

hak_lock_t hak_samples_lock = HAK_LOCK_INIT;
_Atomic(hak_records_t *) hak_records;
static struct {
  hak_sample_t **bucket;
  size_t buckets, live; /* a power of two, or 0; records in them */
  hak_sample_t *unused;
} table;

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

/* The memory of the buckets before is lost: a third of what there is in the end. */
static bool grow_table(size_t buckets) {
  hak_sample_t **fresh = hak_meta_alloc(buckets * sizeof(void *));
  hak_lock(&hak_samples_lock);
  if (fresh && table.buckets < buckets) {
    hak_sample_t **old = table.bucket;
    size_t count = table.buckets;
    table.bucket = fresh;
    table.buckets = buckets;
    table.live = 0;
    for (size_t i = 0; i < count; i++) {
      for (hak_sample_t *record = old[i], *next; record; record = next) {
        next = record->next;
        hak_record_put_locked(record);
      }
    }
  }
  hak_unlock(&hak_samples_lock);
  return fresh != NULL;
}

hak_sample_t *hak_record_new_locked(void) {
  hak_sample_t *record = table.buckets > 0 ? table.unused : NULL;
  if (record) {
    table.unused = record->next;
  }
  return record;
}

/* False: no memory for records. */
static bool stock(void) {
  hak_lock(&hak_samples_lock);
  size_t buckets = table.buckets, live = table.live;
  bool enough = table.unused != NULL;
  hak_unlock(&hak_samples_lock);
  if (buckets == 0 && !grow_table(BUCKETS_MIN)) {
    return false;
  }
  if (live > buckets && buckets > 0 && buckets < BUCKETS_MAX) {
    grow_table(buckets * GROWTH); /* without memory, searches take longer */
  }
  hak_records_t *piece = enough ? NULL : hak_meta_alloc(sizeof *piece);
  if (piece) {
    add_piece(piece);
  }
  return enough || piece;
}

hak_sample_t *hak_record_new(void) {
  for (;;) {
    hak_lock(&hak_samples_lock);
    hak_sample_t *record = hak_record_new_locked();
    hak_unlock(&hak_samples_lock);
    if (record || !stock()) {
      return record;
    }
  }
}

void hak_record_drop_locked(hak_sample_t *record) {
  record->next = table.unused;
  table.unused = record;
}

void hak_record_drop(hak_sample_t *record) {
  hak_lock(&hak_samples_lock);
  hak_record_drop_locked(record);
  hak_unlock(&hak_samples_lock);
}

void hak_record_put_locked(hak_sample_t *record) {
  hak_sample_t **bucket = bucket_of(record->block);
  record->next = *bucket;
  record->live = 1;
  *bucket = record;
  table.live++;
}

/* The link that leads to the block's record; to NULL where there is none. */
static hak_sample_t **link_of(const void *block) {
  hak_sample_t **link = bucket_of(block);
  while (*link && (*link)->block != block) {
    link = &(*link)->next;
  }
  return link;
}

hak_sample_t *hak_record_take_locked(const void *block) {
  hak_sample_t **link = table.buckets > 0 ? link_of(block) : NULL, *record = link ? *link : NULL;
  if (record) {
    *link = record->next;
    record->live = 0;
    table.live--;
  }
  return record;
}

bool hak_record_find(const void *block, hak_sample_t *copy) {
  hak_lock(&hak_samples_lock);
  const hak_sample_t *record = table.buckets > 0 ? *link_of(block) : NULL;
  if (record) {
    *copy = *record;
  }
  hak_unlock(&hak_samples_lock);
  return record != NULL;
}

size_t hak_records_live(void) {
  return hak_lock_read(&hak_samples_lock, &table.live);
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
