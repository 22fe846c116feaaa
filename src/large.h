/* Duty: blocks that no slab holds: runs of slices, 48 KiB .. 1 MiB (run.c), taken from the arena one by one; and above
 * these huge ones (huge.c): slices of one chunk, or whole chunks and the first slices of the next.
 * Data: a run, and as far as a huge block goes the descriptor of its first chunk, in which no second one begins, belong
 * to whoever has the block. Layers below: slab, arena, pagemap, types. */
#pragma once

#include "types.h"

/* `align`: a power of two. *zeroed: all of it reads as zeros. NULL: no memory. */
void *hak_run_take(uint32_t cls, size_t align, bool *zeroed);
/* Names `function` when the block was given already. */
void hak_run_give(void *block, uint32_t cls, const char *function);
/* The same for several. */
void hak_run_return(hak_free_block_t *const *blocks, uint32_t n, uint32_t cls, const char *function);
/* Make the block one of another class where it is. False: it stays as it was. */
bool hak_run_resize(void *block, uint32_t cls, uint32_t wanted);

/* `align`: a power of two; `bytes` > HAK_CACHED_MAX or `align` > HAK_CHUNK_BYTES. *zeroed: all of it reads as zeros.
 * NULL: no memory, or a size beyond PTRDIFF_MAX. */
void *hak_huge_alloc(size_t bytes, size_t align, bool *zeroed);
/* `block` must be the start of a slice whose class is HUGE. */
void hak_huge_free(void *block, const char *function);
size_t hak_huge_usable(const void *block);
/* Of a run or a huge block. */
HAK_INLINE size_t hak_large_usable(const void *block, uint32_t cls) {
  return cls == HAK_CLASS_HUGE ? hak_huge_usable(block) : hak_class_sizes[cls];
}
/* Make the block `bytes` (> HAK_CACHED_MAX, or more than it has) long where it is. False: it keeps its size. */
bool hak_huge_resize(void *block, size_t bytes);
/* Make a huge block a run of that class where it is, and back. False: its contents and size stay, but of the second it
 * may be a huge one. */
bool hak_huge_to_run(void *block, uint32_t cls);
bool hak_huge_from_run(void *block, uint32_t cls, size_t bytes);
/* The block with `bytes`, more than it has, elsewhere: moved by the page, or copied. NULL: it stays as it was. */
void *hak_huge_move(void *block, size_t bytes);

/* Huge blocks that are live. */
extern _Atomic size_t hak_huge_live, hak_huge_live_bytes;
