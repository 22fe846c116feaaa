/* Where the blocks of a size lie, found out through malloc alone: runs of equal blocks one after the other, and the
 * tails behind them that are too short for one more. */
#ifndef HAK_TEST_WILD_H
#define HAK_TEST_WILD_H

#include "trap.h"

enum { WILD_BLOCKS_MAX = 1 << 16, WILD_SMALL_MAX = 32 << 10 };

typedef struct {
  size_t bytes; /* of a block */
  size_t count;
  uintptr_t block[WILD_BLOCKS_MAX]; /* live, sorted */
} WildBlocks;

/* A run of `blocks` neighbours, and what follows it: [end, next), shorter than a block, before the next of its size. */
typedef struct {
  uintptr_t begin, end, next;
} WildTail;

/* Takes many blocks of the class of `bytes`, which becomes its real size. */
void wild_take(WildBlocks *blocks, size_t bytes);
void wild_give(WildBlocks *blocks);

/* Finds the next tail that begins behind *from, which moves on. */
bool wild_next_tail(const WildBlocks *blocks, size_t *from, WildTail *tail);

#endif
