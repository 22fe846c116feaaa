/* Duty: blocks with a guard page on either side. A slot is one page between two that nobody may touch; a block lies at
 * its end, or, of every few one, at its start, and the rest of the page holds a pattern. A slot that is freed may not
 * be touched either, until all others have been used.
 * Data: the slots, in a queue by age; lock: the samples', under which no system call is made. What a slot was used for
 * last is read without the lock, by the report of a fault. Layers below: unwind, records, pagemap, os. */
#pragma once

#include "records.h"

enum { HAK_GUARD_FRAMES = 24 };

/* What somebody did with the block. */
typedef struct hak_guard_event {
  uint32_t thread; /* its hak_lock_id */
  uint32_t count;  /* of its frames */
  uintptr_t pcs[HAK_GUARD_FRAMES];
} hak_guard_event_t;

/* In the order of likelihood: of two neighbours the one whose state is the larger is meant. */
typedef enum hak_guard_state { HAK_GUARD_UNUSED, HAK_GUARD_FREED, HAK_GUARD_LIVE } hak_guard_state_t;

typedef struct hak_guard_slot {
  struct hak_guard_slot *next; /* the one freed after this */
  char *page;
  char *block; /* the last that was there */
  size_t bytes;
  _Atomic uint32_t state;
  uint32_t shut; /* hak_pages_t */
  hak_guard_event_t allocated, freed;
} hak_guard_slot_t;

/* A pool of so many slots. False: no memory, or there is one. */
bool hak_guard_make_pool(size_t slots);

/* A block of so many bytes; `bits`: random ones. Its slot's number + 1; 0: there is none, or the block is larger than a
 * page. */
uint32_t hak_guard_take(size_t bytes, uint64_t bits, void **block);
/* Back; aborts, with a report, if the page was written to outside of the block. */
void hak_guard_give(uint32_t number);
/* As many bytes as may be used. */
size_t hak_guard_usable(size_t asked);

/* NULL: the address is not in the pool. Else the slot whose block it is nearest to, or might have been. */
const hak_guard_slot_t *hak_guard_slot_of(const void *address);
/* What is known of its last block, on stderr. */
void hak_guard_explain(const hak_guard_slot_t *slot);
/* Explains faults in the pool from now on, before the program's own handlers are set. One that it sets later replaces
 * this one, and then nothing is told. */
bool hak_fault_watch(void);
/* An event, on stderr; not by two threads at once. */
void hak_guard_say_event(const char *what, const hak_guard_event_t *event);

typedef struct hak_guard_totals {
  _Atomic size_t taken, refused; /* refused: every slot was in use */
} hak_guard_totals_t;
extern hak_guard_totals_t hak_guards;
