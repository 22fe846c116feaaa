/* Duty: the random walk of one thread through the whole interface, with a model of every block it owns.
 *
 * A walker owns WALK_SLOTS slots; a slot is empty or describes one live block. Each step picks a slot and an
 * operation. Blocks change hands through the exchange: an array of slots, each under its own mutex. The contents of
 * a block follow from its tag (pattern.h); they are verified whenever the block is touched.
 *
 * Invariant between steps: slot.block == NULL, or block .. block + bytes holds the pattern of slot.tag.
 * Between rounds no walker runs; then walk_verify_all() looks at all slots of all walkers at once. */
#ifndef HAK_TEST_WALK_H
#define HAK_TEST_WALK_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "prng.h"

enum { WALK_SLOTS = 4096, WALK_LARGE_MAX = 24, EXCHANGE_SLOTS = 512 };

typedef struct {
  unsigned char *block;
  size_t bytes;
  size_t alignment; /* the requested alignment; 0: a block that free_sized may free */
  uint64_t tag;
} Slot;

typedef struct {
  Prng prng;
  size_t large_blocks; /* bounds the memory of the walk */
  uint64_t steps;
  Slot slots[WALK_SLOTS];
} Walker;

void walk_exchange_init(void);
void walk_init(Walker *walker, uint64_t seed);
void walk_steps(Walker *walker, uint64_t steps);

/* Verify every block of every walker and of the exchange: its contents, and that no two blocks overlap. No walker may
 * be running. */
void walk_verify_all(Walker *const *walkers, size_t count);

void walk_release(Walker *walker);
void walk_exchange_release(void);

#endif
