/* Duty: blocks with a guard page on either side. A slot is one page between two guard pages. A block usually lies at
 * the slot's end, and in a few slots at its start; a pattern fills the rest of the page. The page of a freed slot is
 * guarded as well, until all other slots have been used.
 * Data: the slots, in a queue by age; lock: the samples', under which no system call is made. The fault report reads a
 * slot's last use without the lock. Layers below: unwind, records, pagemap, os. */
#pragma once

#include "records.h"

enum { HAK_GUARD_FRAMES = 24 };

/* An allocation or free of the block, with its stack. */
typedef struct hak_guard_event {
  uint32_t thread; /* hak_lock_id of the thread */
  uint32_t count;  /* number of frames */
  uintptr_t pcs[HAK_GUARD_FRAMES];
} hak_guard_event_t;

/* In ascending order of likelihood: of two neighbours, the report names the one with the larger state. */
typedef enum hak_guard_state { HAK_GUARD_UNUSED, HAK_GUARD_FREED, HAK_GUARD_LIVE } hak_guard_state_t;

/* How the access of a slot's page was taken away. */
typedef enum hak_guard_access { HAK_GUARD_OPEN, HAK_GUARD_ADVISED, HAK_GUARD_PROTECTED } hak_guard_access_t;

typedef struct hak_guard_slot {
  struct hak_guard_slot *next; /* the slot that was freed after this one */
  char *page;
  char *block; /* the last block in this slot */
  size_t bytes;
  _Atomic uint32_t state;
  hak_guard_access_t access;
  hak_guard_event_t allocated, freed;
} hak_guard_slot_t;

/* Make a pool of `slots` slots. False: no memory, or there is a pool already. */
bool hak_guard_make_pool(size_t slots);

/* Take a block of `bytes`; `bits` are random. Returns the slot's number + 1, or 0 if no slot is free or the block is
 * larger than a page. */
uint32_t hak_guard_take(size_t bytes, uint64_t bits, void **block);
/* Give the slot back. Aborts with a report if the program wrote to the page outside the block. */
void hak_guard_give(uint32_t number);
/* Usable bytes of a block. */
size_t hak_guard_usable(size_t asked);

/* The slot whose block is nearest to the address. NULL: the address is not in the pool. */
const hak_guard_slot_t *hak_guard_slot_of(const void *address);
/* Report the history of the slot's last block on stderr. */
void hak_guard_explain(const hak_guard_slot_t *slot);
/* Report faults in the pool from here on; call it before the program sets its own handlers. A handler that the program
 * sets later replaces this one, and the reports end. */
bool hak_fault_watch(void);
/* Report an event on stderr; only one thread at a time may do so. */
void hak_guard_say_event(const char *what, const hak_guard_event_t *event);
