/* Unused bytes beside a block. A thread checks them at its first free of each class, and at each free of a huge
 * block. Beside a block below 16 KiB it looks only at pages that hold a block, since the kernel would map any other
 * page for the look. Larger blocks have at least four pages of their own. */
#include "edges.h"

#include "blocks.h"
#include "mixed.h"
#include "slab.h"

enum { LOOKED_AT = 64 };

/* Whether the place lies behind all blocks of the slab that were ever handed out, in memory that read as zeros.
 * `small`: and the last of these blocks ends in its page. */
static bool is_unused(const hak_slab_t *slab, const char *from, bool small) {
  const char *end = slab->base + (size_t)hak_slab_bump(slab) * slab->block_bytes;
  bool in_page = (uintptr_t)from >> HAK_PAGE_SHIFT == (uintptr_t)(end - 1) >> HAK_PAGE_SHIFT;
  return slab->zeroed && from >= end && (in_page || !small);
}

/* Whether the next bytes of its slice are zeros, unless a block may lie there. `small`: only if their page holds a
 * block. */
static bool are_zeros(const char *from, bool small) {
  size_t rest = HAK_SLICE_BYTES - (uintptr_t)from % HAK_SLICE_BYTES;
  size_t bytes = rest < LOOKED_AT ? rest : LOOKED_AT;
  const hak_chunk_t *chunk = hak_pagemap_chunk(from);
  uint32_t cls = hak_pagemap_slice_class(from);
  if (!chunk || chunk->state != HAK_CHUNK_SLICED) {
    return true;
  }
  if (cls != HAK_CLASS_NONE && cls < HAK_RUN_FIRST) { /* the last block of a slab, if it was never handed out */
    const hak_slab_t *slab = hak_pagemap_slab(from);
    bool made = atomic_load_explicit(&slab->cls, memory_order_acquire) == cls; /* pairs with make_slab */
    return !made || !is_unused(slab, from, small) || hak_is_zero(from, bytes) ||
           !is_unused(slab, from, small); /* handed out meanwhile */
  }
  if (small) {
    return true;
  }
  hak_mask_t slice = hak_mask_of(hak_pagemap_slice(from) & (HAK_CHUNK_SLICES - 1), 1);
  hak_lock(&hak_arena.lock); /* so that no thread takes the slice meanwhile */
  bool unused = (chunk->free & chunk->present & ~chunk->dirty & slice) != 0;
  bool zeros = !unused || hak_is_zero(from, bytes);
  hak_unlock(&hak_arena.lock);
  return zeros;
}

static bool is_clean_before(const char *block, bool small) {
  bool starts_chunk = (uintptr_t)block % HAK_CHUNK_BYTES == 0;
  return starts_chunk || are_zeros(block - LOOKED_AT, small);
}

static bool is_clean_behind(const char *end, bool small) {
  bool ends_chunk = (uintptr_t)end % HAK_CHUNK_BYTES == 0;
  return ends_chunk || are_zeros(end, small);
}

HAK_NOINLINE bool hak_edges_find_damage(const void *block, uint32_t cls, hak_misuse_t *reason) {
  if (hak_pagemap_slice_class(block) == HAK_CLASS_MIXED) {
    return hak_mixed_find_damage(block, cls, reason);
  }
  bool small = cls < HAK_RUN_FIRST, first = !small || hak_slab_offset(block) == 0;
  size_t bytes = small ? hak_class_sizes[cls] : hak_round_up(hak_block_usable(block, cls), HAK_SLICE_BYTES);
  const char *end = (const char *)block + bytes;
  bool few_pages = bytes < HAK_SLICE_BYTES;
  if (first && !is_clean_before(block, few_pages)) {
    *reason = HAK_MISUSE_UNDERFLOW;
    return true;
  }
  bool next_has_tag =
      small && hak_block_index(block, hak_class_inverses[cls]) + 1 < hak_slab_bump(hak_pagemap_slab(block));
  *reason = HAK_MISUSE_OVERFLOW;
  return !next_has_tag && !is_clean_behind(end, few_pages);
}
