/* Duty: a record for each sampled block, found by its address; records are never given back, but used again.
 * Data: the table and the records; lock: the samples', under which nothing is called. Layers below: meta, pagemap. */
#pragma once

#include "geometry.h"
#include "lock.h"

struct hak_site;      /* of the profile */
struct hak_slot_home; /* slots.h */

typedef struct hak_sample {
  void *block;
  size_t asked;               /* bytes of the request */
  size_t bytes;               /* that it counts with: its class's, or a huge block's */
  double weight_bytes;        /* of allocations that it stands for; divided by `bytes`: how many. 0: only guarded */
  uint32_t cls;               /* which the page map would have: HAK_CLASS_HUGE, or below HAK_CLASS_COUNT */
  uint32_t thread;            /* which allocated it: its hak_lock_id */
  struct hak_site *site;      /* NULL: only guarded */
  struct hak_slot_home *home; /* where its memory is from; NULL: slices of its own */
  struct hak_sample *next;    /* in the table, or among those that are not used */
  uint32_t live;              /* it stands in the table */
  uint32_t guard;             /* 0: it has no guard page */
} hak_sample_t;

enum { HAK_RECORDS = 48 }; /* of one piece */
typedef struct hak_records {
  struct hak_records *next;
  hak_sample_t sample[HAK_RECORDS];
} hak_records_t;

extern hak_lock_t hak_samples_lock;
/* Every piece; only ever prepended to. */
extern _Atomic(hak_records_t *) hak_records;

/* One for the caller alone, and the lock is held now. NULL: no memory, and it is not. */
hak_sample_t *hak_record_new_and_lock(void);
void hak_record_drop_locked(hak_sample_t *record);
/* From now on it is found. */
void hak_record_put_locked(hak_sample_t *record);
/* It is the caller's alone again. NULL: there is none for the block. */
hak_sample_t *hak_record_take_locked(const void *block);
/* A copy. False: there is none. */
bool hak_record_find(const void *block, hak_sample_t *copy);
size_t hak_records_live(void);
/* Live blocks that are neither runs nor huge, of a class: those whose memory is the sampler's. */
size_t hak_records_out(uint32_t cls);
void hak_record_check(void);
