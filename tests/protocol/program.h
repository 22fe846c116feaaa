/* Duty: what the threads of the scenarios do: a program with a cache a thread, as plain as can be.
 * Compiled like the sources under test, so that the program's own accesses to its blocks are part of the check. */
#ifndef HAK_TEST_PROGRAM_H
#define HAK_TEST_PROGRAM_H

#include "collaborators.h"

enum { HOLDER_BLOCKS = 512 };

/* What a thread has. `current` is set as cache.c sets it: after the slab is acquired, and cleared before it is dropped.
 */
typedef struct Holder {
  hak_slab_t *current;
  void *blocks[HOLDER_BLOCKS]; /* that the program uses */
  uint32_t count;
} Holder;

extern Holder holders[EXPLORE_THREADS];

void holder_acquire(Holder *holder, uint32_t cls);
void holder_drop(Holder *holder);
/* Blocks of the current slab, up to `want`. */
void holder_take(Holder *holder, uint32_t want);
/* Free the `count` blocks that were taken last, at once. */
void holder_give(Holder *holder, uint32_t count);
/* Without a cache. */
bool holder_take_one(Holder *holder, uint32_t cls);
void holder_give_one(Holder *holder);
/* The blocks that were taken last get another holder, before the threads run. */
void holder_hand(Holder *from, Holder *to, uint32_t count);

/* A slab of the class with every block handed out: `blocks` of them with the first holders, as many with each as said.
 */
void everything_out(uint32_t cls, uint32_t first, uint32_t second, uint32_t third);

#endif
