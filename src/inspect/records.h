/* Duty: a record for each sampled block, found by its address. Records are reused, never given back.
 * Data: the table and the records; lock: the samples'; no other module is called under it.
 * Layers below: meta, pagemap. */
#pragma once

#include "system/system.h"

struct hak_piece;     /* a piece of a region */
struct hak_site;      /* a site of the profile */
struct hak_slot_home; /* slots.h */

typedef struct hak_sample {
  void *block;
  size_t asked;        /* requested bytes */
  size_t bytes;        /* counted bytes: the class's size, or a huge block's */
  double weight_bytes; /* allocated bytes that it stands for; divided by `bytes`, a number of blocks; 0: only guarded */
  uint32_t cls;        /* the class without sampling: HAK_CLASS_HUGE, or below HAK_CLASS_COUNT; NONE: of a region */
  uint32_t thread;     /* hak_lock_id of the thread that allocated it */
  struct hak_site *site;             /* NULL: only guarded */
  struct hak_slot_home *home;        /* home of its slot; NULL: it has slices of its own */
  struct hak_sample *next;           /* next in the table, or in the list of unused records */
  struct hak_piece *piece;           /* the piece of a region that holds the block, or NULL */
  struct hak_sample *before, *after; /* list of the piece's samples */
  uint32_t live;                     /* 1: it is in the table */
  uint32_t guard;                    /* the guarded slot's number + 1; 0: it has no guard page */
} hak_sample_t;

enum { HAK_RECORDS = 48 }; /* number in one piece */
typedef struct hak_records {
  struct hak_records *next;
  hak_sample_t sample[HAK_RECORDS];
} hak_records_t;

extern hak_lock_t hak_samples_lock;
/* List of every piece, which only grows at its head. */
extern _Atomic(hak_records_t *) hak_records;

/* Take an unused record for the caller, and take the lock. NULL: no memory, and the lock is not held. */
hak_sample_t *hak_record_new_and_lock(void);
void hak_record_drop_locked(hak_sample_t *record);
/* Put the record into the table, and into the list of its piece. */
void hak_record_put_locked(hak_sample_t *record);
/* Take a block's record out of the table, for the caller alone. `piece`: of a region, or NULL. NULL: there is none. */
hak_sample_t *hak_record_take_locked(const void *block, struct hak_piece *piece);
/* The list of samples of the record's piece: sampler.c. */
void hak_sampler_enter_piece_locked(hak_sample_t *record);
void hak_sampler_leave_piece_locked(hak_sample_t *record);
/* Copy the record of a block that is in no region. False: there is none. */
bool hak_record_find(const void *block, hak_sample_t *copy);
size_t hak_records_live(void);
/* Number of the class's live blocks in the sampler's own memory; 0 for runs and huge blocks, which have none there. */
size_t hak_records_out(uint32_t cls);

/* Memory for sampled blocks of the classes below runs, in slices that hold nothing else (class SAMPLED in the
 * page map). Up to 4 KiB, a block gets a slot in a slice of equal slots, whose sizes are powers of two from 64 bytes
 * up. A larger block gets slices.
 * Data: a home for each slice with slots, in lists by slot size; lock: the samples'. Layers below: records, arena.
 *
 * A free slot carries the tag of a block in a slab, so that a write to it is noticed. */
typedef struct hak_slot_home {
  char *base;
  struct hak_slot_home *next, *prev;        /* all homes of the slot size; those with free slots come first */
  uint64_t free[HAK_SLICE_BYTES / 64 / 64]; /* bit i: slot i was used before, and is free */
  uint32_t shift, bump, count;              /* logarithm of the slot's bytes; slots used so far; bits set */
} hak_slot_home_t;

/* Take memory for the sample's class (< HAK_RUN_FIRST), aligned like its blocks, and a record. Sets sample->block and
 * ->home. The lock is held afterwards, so that one critical section notes the whole sample. NULL: no memory, and the
 * lock is not held. */
hak_sample_t *hak_record_take_slot_and_lock(hak_sample_t *sample);
/* Give back a sample's memory. True: the caller must give back the block's slices, without the lock. */
bool hak_record_give_slot_locked(void *block, hak_slot_home_t *home);
void hak_record_give_slices(void *block, uint32_t cls, hak_slot_home_t *home);
/* Give slices whose slots are all free back to the arena. */
void hak_records_release(void);

/* Why no live sample begins at an address of class SAMPLED. */
hak_misuse_t hak_record_why(const void *address);

void hak_record_check(void);
