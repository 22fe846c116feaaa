/* Duty: map any address to the class of the block that starts there, and to its chunk. There are two levels. A leaf
 * covers 16 GiB; the heap makes it when it first maps memory there, and keeps it for good.
 * Data: the table of leaves. The owner of a slice writes its class byte; a chunk pointer is written under the arena's
 * lock. All are read without a lock. Layers below: types, meta, os. */
#pragma once

#include "base/base.h"

enum {
#ifdef __x86_64__
  HAK_ADDRESS_BITS = 47,
#else
  HAK_ADDRESS_BITS = 48,
#endif
  HAK_LEAF_SHIFT = 34,
  HAK_LEAF_SLICES = 1 << (HAK_LEAF_SHIFT - HAK_SLICE_SHIFT),
  HAK_LEAF_CHUNKS = 1 << (HAK_LEAF_SHIFT - HAK_CHUNK_SHIFT),
  HAK_SPAN_CHUNKS = 512, /* chunks whose entries fill a piece */
  HAK_LEAVES = 1 << (HAK_ADDRESS_BITS - HAK_LEAF_SHIFT),
  HAK_LEAF_PIECE_BYTES = 4 << 10, /* unit of making a table writable: whole pages */
  HAK_LEAF_TABLE_BYTES = HAK_LEAF_SLICES + HAK_LEAF_CHUNKS * (int)sizeof(void *),
  HAK_LEAF_PIECES = HAK_LEAF_TABLE_BYTES / HAK_LEAF_PIECE_BYTES,
};
_Static_assert(HAK_LEAF_TABLE_BYTES % HAK_LEAF_PIECE_BYTES == 0, "the tables are made writable in whole pieces");

/* The tables are mapped read-only and made writable piece by piece, since read-only memory counts under no limit.
 * `code`: see hak_code_of. A chunk without an entry of its own (GONE, or NULL) uses its span's entry, so a block of
 * many GiB needs no walk through pages of entries. `entered`: the spans of which entries were ever set; walks read
 * no pages of other spans. */
typedef struct hak_leaf {
  _Atomic uint8_t codes[HAK_LEAF_SLICES];
  _Atomic(hak_chunk_t *) chunks[HAK_LEAF_CHUNKS];
  _Atomic uint8_t pieces[HAK_LEAF_PIECES];
  _Atomic(hak_chunk_t *) spans[HAK_LEAF_CHUNKS / HAK_SPAN_CHUNKS];
  _Atomic bool entered[HAK_LEAF_CHUNKS / HAK_SPAN_CHUNKS]; /* for sliced chunks set under the arena's lock */
  _Atomic uint32_t attempts; /* counts the attempts to make pieces writable; waiting threads sleep on it */
} hak_leaf_t;

/* Address of a leaf, less the number of its first slice, so that a slice number leads to its code without a mask. 0: no
 * leaf. */
extern _Atomic uintptr_t hak_leaves[HAK_LEAVES];

HAK_INLINE uintptr_t hak_pagemap_slice(const void *address) {
  return (uintptr_t)address >> HAK_SLICE_SHIFT;
}
/* The address must lie in a leaf. */
HAK_INLINE _Atomic uint8_t *hak_pagemap_code(uintptr_t biased, const void *address) {
  return (_Atomic uint8_t *)(biased + hak_pagemap_slice(address)); /* NOLINT(performance-no-int-to-ptr) */
}
/* Returns 0 if there is no leaf. */
HAK_INLINE uintptr_t hak_pagemap_leaf(const void *address) {
  uintptr_t index = (uintptr_t)address >> HAK_LEAF_SHIFT;
  return HAK_LIKELY(index < HAK_LEAVES) ? atomic_load_explicit(&hak_leaves[index], memory_order_relaxed) : 0;
}
/* The class of the slice at any address; HAK_CLASS_NONE if no block of the heap starts there. */
HAK_INLINE uint32_t hak_pagemap_slice_class(const void *address) {
  uintptr_t leaf = hak_pagemap_leaf(address);
  return leaf ? hak_code_class(atomic_load_explicit(hak_pagemap_code(leaf, address), memory_order_relaxed))
              : (uint32_t)HAK_CLASS_NONE;
}
/* The class of the block of a mixed slab that starts at the address; HAK_CLASS_NONE: none does. */
uint32_t hak_pagemap_class_in_mixed(const void *address);
/* The class of the block at any address. In slabs of one class, any address in a slab has it; see hak_pagemap_is_start.
 */
HAK_INLINE uint32_t hak_pagemap_class(const void *address) {
  uint32_t cls = hak_pagemap_slice_class(address);
  return HAK_LIKELY(cls != HAK_CLASS_MIXED) ? cls : hak_pagemap_class_in_mixed(address);
}
/* Whether a block starts at the address, whose class hak_pagemap_class found to be `cls`. */
HAK_INLINE bool hak_pagemap_is_start(const void *address, uint32_t cls) {
  return hak_is_start_in_class(address, cls) || hak_pagemap_slice_class(address) == HAK_CLASS_MIXED;
}

/* Set the class of slices, which must belong to the heap. */
HAK_INLINE void hak_pagemap_set_class(const void *address, size_t slices, uint32_t cls) {
  uintptr_t leaf = hak_pagemap_leaf(address);
  for (size_t i = 0; i < slices; i++) {
    atomic_store_explicit(hak_pagemap_code(leaf, address) + i, hak_code_of(cls), memory_order_relaxed);
  }
}
/* Set the class to NONE. False: another class is there. If two threads free one block, one of them gets this answer. */
HAK_INLINE bool hak_pagemap_clear_class(const void *address, uint32_t cls) {
  uint8_t expected = hak_code_of(cls);
  return atomic_compare_exchange_strong_explicit(hak_pagemap_code(hak_pagemap_leaf(address), address), &expected, 0,
                                                 memory_order_acq_rel, memory_order_relaxed);
}

/* The page map's entry for all free and unmapped chunks, except the ends of extents. */
extern hak_chunk_t hak_chunk_gone;

/* The chunk of any address. NULL: the heap never used the address. */
hak_chunk_t *hak_pagemap_chunk(const void *address);
/* Set the entries of `chunks` chunks. Their leaves must exist. */
void hak_pagemap_set_chunk(const char *base, size_t chunks, hak_chunk_t *chunk);
/* Make the leaves for a range. False: no memory. */
bool hak_pagemap_cover(const char *base, size_t bytes);

/* Keep a spare leaf in stock, so that one more range can be covered even without memory. False: there is none. */
bool hak_pagemap_stock(void);

/* The place in a chunk that threads fill first. Descriptors of slabs begin with it, so that those of a small heap share
 * a page. The size is chosen before the first chunk. */
extern uint32_t hak_first_slab;
HAK_INLINE hak_slab_t *hak_pagemap_slab_in(const hak_chunk_t *chunk, const void *address) {
  uintptr_t place = ((uintptr_t)address >> HAK_SLAB_SHIFT) - hak_first_slab;
  return &chunk->slabs->slab[place & (HAK_CHUNK_SLABS - 1)];
}
/* The slab that holds the address, which must be in a slab. */
HAK_INLINE hak_slab_t *hak_pagemap_slab(const void *address) {
  return hak_pagemap_slab_in(hak_pagemap_chunk(address), address);
}

/* In the child of a fork: reset pieces that another thread of the parent was making writable. */
void hak_pagemap_fork_child(void);

/* Iterate over the SLICED chunks; start with NULL. Call it under the arena's lock. */
hak_chunk_t *hak_pagemap_next_sliced(const hak_chunk_t *after);
