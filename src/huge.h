/* Duty: blocks over 1 MiB: slices of one chunk, or whole chunks and the first slices of the next.
 * Data: the descriptor of the first chunk belongs, as far as the block goes, to whoever has the block; at most one such
 * block begins in a chunk. Layers below: arena, pagemap, types, misuse. */
#pragma once

#include "types.h"

/* `align`: a power of two; `bytes` > HAK_CACHED_MAX or `align` > HAK_CHUNK_BYTES. *zeroed: all of it reads as zeros.
 * NULL: no memory, or a size beyond PTRDIFF_MAX. */
void *hak_huge_alloc(size_t bytes, size_t align, bool *zeroed);
/* `block` must lie in a slice whose class is HUGE. */
void hak_huge_free(void *block, const char *function);
size_t hak_huge_usable(const void *block);
/* Make the block `bytes` (> HAK_CACHED_MAX) long where it is. False: it stays as it was. */
bool hak_huge_resize(void *block, size_t bytes);
/* A copy of `bytes`, more than it has, elsewhere, moved by the page where that is cheaper; frees the old one. NULL: it
 * stays as it was. */
void *hak_huge_move(void *block, size_t bytes);

typedef struct hak_huge_totals {
  size_t blocks, bytes;
} hak_huge_totals_t;
hak_huge_totals_t hak_huge_totals(void);
