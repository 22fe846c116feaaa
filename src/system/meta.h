/* Duty: memory for the allocator's own objects, in mappings without any block of the program.
 * Data: one piece that is being divided, and lists of dropped objects; lock: its own. Memory is never given back: its
 * owners reuse it.
 * Layers below: os, lock. */
#pragma once

#include "lock.h"

/* Returns zeroed memory, aligned to a cache line. NULL: the system has no memory. */
void *hak_meta_alloc(size_t bytes);
/* Like hak_meta_alloc; the memory lies one cache line behind the start of a page of 4 KiB. */
void *hak_meta_alloc_in_page(size_t bytes);

/* Objects of one size that wait for their next use: a list through their first words, which any number of threads
 * share. Take one as it was dropped, but for that word; or a new one, of zeros. NULL: the system has no memory. */
void *hak_meta_take(void **dropped, size_t bytes);
void hak_meta_drop(void **dropped, void *object);

size_t hak_meta_bytes(void);
/* Like hak_meta_bytes, without the bytes in the library's own data. */
size_t hak_meta_mapped_bytes(void);
extern hak_lock_t hak_meta_lock;

/* The head of each mapping. The heads form a list, under the lock. */
typedef struct hak_meta_piece {
  struct hak_meta_piece *before;
  size_t bytes;
} hak_meta_piece_t;
extern hak_meta_piece_t *hak_meta_pieces;
