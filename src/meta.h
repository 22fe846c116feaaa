/* Duty: memory for the allocator's own objects, in mappings that hold nothing of the caller's.
 * Data: one piece that is being cut; lock: its own. Nothing is ever given back: the owners recycle.
 * Layers below: os, lock. */
#pragma once

#include "lock.h"

/* Zeroed, aligned to a cache line. NULL when the system has no memory. */
void *hak_meta_alloc(size_t bytes);
size_t hak_meta_bytes(void);
extern hak_lock_t hak_meta_lock;

/* At the start of each mapping: a list of all, under the lock. */
typedef struct hak_meta_piece {
  struct hak_meta_piece *before;
  size_t bytes;
} hak_meta_piece_t;
extern hak_meta_piece_t *hak_meta_pieces;
