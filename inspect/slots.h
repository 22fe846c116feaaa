/* Duty: memory for sampled blocks of the classes below runs: slices that hold nothing else, class SAMPLED in the page
 * map. Up to 4 KiB a slot of a slice that is cut into equal ones, 64 bytes up, each a power of two; above, slices.
 * Data: a home for each slice that is cut, in lists by the slots' size; lock: the samples'. Layers below: records,
 * arena.
 *
 * A slot that is free carries the tag of a block in a slab, so that a write to it is noticed. */
#pragma once

#include "records.h"

typedef struct hak_slot_home {
  char *base;
  struct hak_slot_home *next, *prev;        /* all homes of the size; those that have something to give come first */
  uint64_t free[HAK_SLICE_BYTES / 64 / 64]; /* bit i: slot i is free, and was used before */
  uint32_t shift, carved, count;            /* of a slot's bytes; slots used so far; bits set */
} hak_slot_home_t;

/* A block for the sample's class (< HAK_RUN_FIRST), aligned as any of it: sample->block and ->home; and a record for
 * it. The lock is held now, so that one passage does for all that is noted of a sample. NULL: no memory, and it is not.
 */
hak_sample_t *hak_slot_take_and_lock(hak_sample_t *sample);
/* True: then, without the lock, its slices go back. */
bool hak_slot_give_locked(void *block, hak_slot_home_t *home);
void hak_slot_give_slices(void *block, uint32_t cls, hak_slot_home_t *home);
/* The slices whose slots are all free go back to the arena: always, or while none is wanted. */
void hak_slots_release(void);

/* Why no live sample begins at an address of the class SAMPLED. */
hak_misuse_t hak_slot_why(const void *address);

size_t hak_slot_bytes(void);
void hak_slot_check(void);
