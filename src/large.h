/* Duty: blocks over 32 KiB: whole units, begun at a unit, grown in place where the next units are free.
 * Data: a descriptor belongs to whoever owns the block. Layers below: arena, types, misuse. */
#ifndef HAK_LARGE_H
#define HAK_LARGE_H

#include "types.h"

/* `align`: a power of two. *zeroed: all of it reads as zeros. NULL: no memory, or a size beyond PTRDIFF_MAX. */
void *hak_large_alloc(size_t bytes, size_t align, bool *zeroed);
/* `block` must lie in a unit whose class is LARGE. */
void hak_large_free(void *block, const char *function);
size_t hak_large_usable(const void *block);
/* Make the block `bytes` (> HAK_SMALL_MAX) long where it is. False: it stays as it was. */
bool hak_large_resize(void *block, size_t bytes);
/* A copy of `bytes`, more than it has, elsewhere, moved by the page where that is cheaper; frees the old one. NULL: it
 * stays as it was. */
void *hak_large_move(void *block, size_t bytes);

/* An address where no block starts: say why, and abort. */
_Noreturn HAK_COLD void hak_large_diagnose(const char *function, const void *address);

typedef struct hak_large_totals {
  size_t blocks, bytes;
} hak_large_totals_t;
hak_large_totals_t hak_large_totals(void);

#endif
