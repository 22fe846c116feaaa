/* Duty: memory for sampled blocks of the classes below runs, in slices that hold nothing else (class SAMPLED in the
 * page map). Up to 4 KiB, a block gets a slot in a slice of equal slots, whose sizes are powers of two from 64 bytes
 * up. A larger block gets slices.
 * Data: a home for each slice with slots, in lists by slot size; lock: the samples'. Layers below: records, arena.
 *
 * A free slot carries the tag of a block in a slab, so that a write to it is noticed. */
#pragma once

#include "records.h"

typedef struct hak_slot_home {
  char *base;
  struct hak_slot_home *next, *prev;        /* all homes of the slot size; those with free slots come first */
  uint64_t free[HAK_SLICE_BYTES / 64 / 64]; /* bit i: slot i was used before, and is free */
  uint32_t shift, bump, count;              /* logarithm of the slot's bytes; slots used so far; bits set */
} hak_slot_home_t;

/* Take memory for the sample's class (< HAK_RUN_FIRST), aligned like its blocks, and a record. Sets sample->block and
 * ->home. The lock is held afterwards, so that one critical section notes the whole sample. NULL: no memory, and the
 * lock is not held. */
hak_sample_t *hak_slot_take_and_lock(hak_sample_t *sample);
/* Give back a sample's memory. True: the caller must give back the block's slices, without the lock. */
bool hak_slot_give_locked(void *block, hak_slot_home_t *home);
void hak_slot_give_slices(void *block, uint32_t cls, hak_slot_home_t *home);
/* Give slices whose slots are all free back to the arena. */
void hak_slots_release(void);

/* Why no live sample begins at an address of class SAMPLED. */
hak_misuse_t hak_slot_why(const void *address);

size_t hak_slot_bytes(void);
void hak_slot_check(void);
