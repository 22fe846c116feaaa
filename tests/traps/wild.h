/* Finds the places of blocks of one size, only by calls of malloc: runs of adjacent blocks, and the tails behind them
 * that are too short for another block. */
#ifndef HAK_TEST_WILD_H
#define HAK_TEST_WILD_H

#include "trap.h"

enum { WILD_BLOCKS_MAX = 1 << 16, WILD_SMALL_MAX = 32 << 10 };

typedef struct {
  size_t bytes; /* of a block */
  size_t count;
  uintptr_t block[WILD_BLOCKS_MAX]; /* live, sorted */
} WildBlocks;

/* A run of `blocks` neighbours, and the tail behind it: [end, next), shorter than a block. The next run begins at
 * `next`. */
typedef struct {
  uintptr_t begin, end, next;
} WildTail;

/* Takes many blocks of the class of `bytes`. Sets `bytes` to the size of the class. */
void wild_take(WildBlocks *blocks, size_t bytes);
void wild_give(WildBlocks *blocks);

/* Finds the next tail that begins behind *from, and advances *from. */
bool wild_next_tail(const WildBlocks *blocks, size_t *from, WildTail *tail);

#endif
