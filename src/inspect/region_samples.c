/* The list of samples of each piece of a region. records.c calls it. */
#include "records.h"

#include "regions/regions.h"

/* The piece's owners read without the lock whether the list is empty. */
static void set_first_locked(hak_piece_t *piece, hak_sample_t *record) {
  atomic_store_explicit(&piece->samples, record, memory_order_relaxed);
}

void hak_region_samples_enter_locked(hak_sample_t *record) {
  record->before = NULL;
  record->after = atomic_load_explicit(&record->piece->samples, memory_order_relaxed);
  if (record->after) {
    record->after->before = record;
  }
  set_first_locked(record->piece, record);
}

void hak_region_samples_leave_locked(const hak_sample_t *record) {
  if (record->after) {
    record->after->before = record->before;
  }
  if (record->before) {
    record->before->after = record->after;
  } else {
    set_first_locked(record->piece, record->after);
  }
}
