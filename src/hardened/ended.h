/* Duty: free blocks of the hardened profile that still wait when their thread ends: one queue for all threads, in the
 * order in which the threads ended. Data: a list of arrays for each kind of slab, under one lock. Every block has the
 * seal of a free block. Layers below: freed, slab, magazine. */
#pragma once

#include "blocks/blocks.h"

/* Blocks that a thread left, at the start of the array of a magazine. */
typedef struct hak_left {
  struct hak_left *next;
  uint32_t count, room; /* number of blocks, and its maximum */
  hak_free_block_t *blocks[];
} hak_left_t;
enum { HAK_LEFT_WORDS = 2 };
_Static_assert(offsetof(hak_left_t, blocks) == HAK_LEFT_WORDS * sizeof(void *), "which take the place of two blocks");

/* Take an array over, with blocks in any order. */
HAK_INLINE hak_left_t *hak_ended_left_in(const hak_magazine_t *array) {
  hak_left_t *left = (hak_left_t *)(void *)hak_magazine_slots(array);
  left->count = 0;
  left->room = hak_magazine_size(array) + 1 - HAK_LEFT_WORDS;
  return left;
}

enum { HAK_WAITING_MAX = 64 };
/* Number of blocks of the class within so many bytes, between 2 and HAK_WAITING_MAX. */
HAK_INLINE uint32_t hak_ended_slots(size_t bytes, uint32_t cls) {
  uint32_t slots = (uint32_t)(bytes / hak_class_sizes[cls]);
  return slots > HAK_WAITING_MAX ? HAK_WAITING_MAX : slots < 2 ? 2 : slots;
}

/* Let the blocks wait. `function` NULL, here and below: a fork ended the thread, and a block that does not look free is
 * left out, since it may be live. */
void hak_ended_leave(uint32_t kind, hak_left_t *left, const char *function);
void hak_ended_leave_one(uint32_t kind, hak_free_block_t *block);
/* Return the blocks of an array to their slabs, and drop the array. */
void hak_ended_return(uint32_t kind, hak_left_t *left, const char *function);
/* Memory is short: return all blocks that wait. */
void hak_ended_release(void);
/* Number of blocks of the class that wait. */
uint32_t hak_ended_blocks(uint32_t cls);

/* Return sealed blocks to their slabs. */
void hak_ended_sealed_return(uint32_t cls, hak_free_block_t **blocks, uint32_t count, const char *function);
/* The first of the blocks that was written to; NULL: there is none. Entries may be NULL. */
const void *hak_ended_sealed_find_damaged(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count);
const void *hak_ended_find_damaged(void);

extern hak_lock_t hak_ended_lock;
