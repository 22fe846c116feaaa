/* Duty: the work of the scenarios' threads: a program as simple as possible, with a cache for each thread.
 * Compiled like the sources under test, so that the program's own accesses to its blocks are part of the check. */
#ifndef HAK_TEST_PROGRAM_H
#define HAK_TEST_PROGRAM_H

#include "collaborators.h"

enum { HOLDER_BLOCKS = 512 };

/* A thread's state. As in cache.c, `current` is set after the slab is acquired, and cleared before it is dropped. */
typedef struct Holder {
  hak_slab_t *current;
  void *blocks[HOLDER_BLOCKS]; /* blocks that the program uses */
  uint32_t count;
} Holder;

extern Holder holders[EXPLORE_THREADS];

void holder_acquire(Holder *holder, uint32_t cls);
void holder_drop(Holder *holder);
/* Take up to `want` blocks of the current slab. */
void holder_take(Holder *holder, uint32_t want);
/* Free the `count` blocks that were taken last, in one call. */
void holder_give(Holder *holder, uint32_t count);
/* Take or free one block without a cache. */
bool holder_take_one(Holder *holder, uint32_t cls);
void holder_give_one(Holder *holder);
/* Before the threads run: pass the blocks that were taken last to another holder. */
void holder_hand(Holder *from, Holder *to, uint32_t count);

/* Begin with a slab of the class whose blocks are all handed out: so many to each of the first three holders, the rest
 * to the last one. */
void everything_out(uint32_t cls, uint32_t first, uint32_t second, uint32_t third);

#endif
