/* Chains of free blocks, as the slabs hand them out and take them back. */
#ifndef HAK_TEST_CHAIN_H
#define HAK_TEST_CHAIN_H

#include "check.h"
#include "slab.h"

/* Of the lists in these tests; never an address when combined with one. */
#define CHAIN_KEY ((uintptr_t)0xc0ffee00c0ffee01)

static inline void chain_push(hak_free_block_t **first, void *address) {
  hak_free_block_t *block = address;
  hak_link(block, *first, CHAIN_KEY);
  *first = block;
}

static inline hak_free_block_t *chain_pop(hak_free_block_t **first) {
  hak_free_block_t *block = *first;
  CHECK(hak_is_linked(block, CHAIN_KEY));
  *first = block->link;
  return block;
}

/* Writes the blocks to `blocks`, in order; returns how many. */
static inline uint32_t chain_blocks(hak_chain_t chain, void **blocks) {
  uint32_t count = 0;
  while (chain.first != HAK_LIST_END) {
    blocks[count++] = chain_pop(&chain.first);
  }
  CHECK(count == chain.count);
  return count;
}

#endif
