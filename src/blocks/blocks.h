/* The folder's header; other folders include this one alone. Duty: blocks outside slabs. Runs of slices, 48 KiB .. 1
 * MiB (run.c), come from the arena one by one. Larger blocks are huge (huge.c): slices of one chunk, or whole chunks
 * and the first slices of the next. Data: the owner of a block owns its slices. For a huge block this includes the
 * descriptor of its first chunk, in which no second huge block begins. Layers below: slab, arena, pagemap, types. */
#pragma once

#include "edges.h"
#include "freed.h"
#include "gap.h"
#include "mixed.h"
#include "pages/pages.h"
#include "seal.h"
#include "slab.h"

/* `align`: a power of two. *zeroed: the block reads as zeros. NULL: no memory. */
void *hak_run_take(uint32_t cls, size_t align, bool *zeroed);
/* Free a run. If it was freed before, report this under the name `function`. */
void hak_run_give(void *block, uint32_t cls, const char *function);
/* Return several blocks of any cached class, runs or blocks of slabs. `function` NULL: the blocks are an orphan's, and
 * one without the tag of a free block is left out, since it may be live. */
void hak_run_return(hak_free_block_t *const *blocks, uint32_t n, uint32_t cls, const char *function);
/* Change the block's class in place. False: the class is unchanged. */
bool hak_run_resize(void *block, uint32_t cls, uint32_t wanted);

/* `align`: a power of two; `bytes` > HAK_CACHED_MAX or `align` > HAK_CHUNK_BYTES. *zeroed: the block reads as zeros.
 * NULL: no memory, or a size beyond PTRDIFF_MAX. */
void *hak_huge_alloc(size_t bytes, size_t align, bool *zeroed);
/* `block` must be the start of a slice whose class is HUGE. */
void hak_huge_free(void *block, const char *function);
size_t hak_huge_usable(const void *block);
/* Usable bytes of a run or a huge block. */
HAK_INLINE size_t hak_block_usable(const void *block, uint32_t cls) {
  return cls == HAK_CLASS_HUGE ? hak_huge_usable(block) : hak_class_sizes[cls];
}
/* Resize the block in place to `bytes`, above HAK_CACHED_MAX or above its size. False: the block keeps its size. */
bool hak_huge_resize(void *block, size_t bytes);
/* Make a huge block a run of that class in place, or the reverse. False: content and size are unchanged, but a run may
 * have become a huge block. */
bool hak_huge_to_run(void *block, uint32_t cls);
bool hak_huge_from_run(void *block, uint32_t cls, size_t bytes);
/* Move the block to a larger place, of `bytes`: by remapping its pages, or by a copy. NULL: the block is unchanged. */
void *hak_huge_move(void *block, size_t bytes);

/* Number and bytes of live huge blocks. */
extern _Atomic size_t hak_huge_live, hak_huge_live_bytes;
