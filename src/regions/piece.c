/* Pieces of regions: from the arena, from the program, and the way from an address to its piece. */
#include "region.h"

#include <string.h>

hak_lock_t hak_pieces_lock = HAK_LOCK_INIT;
static void *dropped, *dropped_spans; /* pieces without memory; those of spans have bits */
static hak_piece_t *given;            /* in memory of the program */
static _Atomic bool any_given;

static hak_piece_t *new_piece(bool has_bits) {
  size_t bits_bytes = has_bits ? HAK_SPAN_STEPS / 64 * sizeof(hak_span_bits_t) : 0;
  hak_piece_t *piece = hak_meta_take(has_bits ? &dropped_spans : &dropped, sizeof *piece + bits_bytes);
  if (piece && has_bits) {
    piece->bits = (hak_span_bits_t *)(piece + 1);
  }
  return piece;
}

static void drop_piece(hak_piece_t *piece) {
  hak_meta_drop(piece->bits ? &dropped_spans : &dropped, piece);
}

/* The descriptors of a piece's memory lead to it, or to none. bits[1]: its slices, for those who only look. */
static void mark(const hak_piece_t *piece, bool is) {
  if (piece->chunks > 0) {
    hak_lock(&hak_arena.lock); /* a profile may be written */
    hak_pagemap_chunk(piece->base)->region = is ? (struct hak_piece *)(uintptr_t)piece : NULL;
    hak_unlock(&hak_arena.lock);
    return;
  }
  hak_slab_t *slab = hak_pagemap_slab(piece->base);
  atomic_store_explicit(&slab->bits[0], is ? (uintptr_t)piece : 0, memory_order_relaxed);
  atomic_store_explicit(&slab->bits[1], is ? piece->slices : 0, memory_order_relaxed);
  atomic_store_explicit(&slab->region, is, memory_order_release); /* pairs with hak_piece_at */
}

static hak_piece_t *given_at(const void *address) {
  if (HAK_LIKELY(!atomic_load_explicit(&any_given, memory_order_acquire))) {
    return NULL;
  }
  hak_lock(&hak_pieces_lock);
  hak_piece_t *piece = given;
  while (piece && (uintptr_t)address - (uintptr_t)piece->base >= (size_t)piece->end << HAK_BLOCK_SHIFT) {
    piece = piece->given;
  }
  hak_unlock(&hak_pieces_lock);
  return piece;
}

/* The first slab's descriptor leads to the piece. What is behind a small piece may be in use by others. */
static hak_piece_t *piece_of(hak_slab_t *slab, const void *address) {
  if (!atomic_load_explicit(&slab->region, memory_order_acquire)) { /* pairs with mark */
    return NULL;
  }
  uintptr_t word = atomic_load_explicit(&slab->bits[0], memory_order_relaxed);
  hak_piece_t *piece = (hak_piece_t *)word; /* NOLINT(performance-no-int-to-ptr) */
  bool inside = piece && (uintptr_t)address - (uintptr_t)piece->base < (size_t)piece->slices << HAK_SLICE_SHIFT;
  return inside ? piece : NULL;
}

hak_piece_t *hak_piece_at(const void *address) {
  hak_chunk_t *chunk = hak_pagemap_chunk(address);
  if (!chunk || chunk->state == HAK_CHUNK_GONE) {
    return given_at(address);
  }
  if (chunk->state == HAK_CHUNK_HUGE) {
    return chunk->region;
  }
  return chunk->state == HAK_CHUNK_SLICED ? piece_of(hak_pagemap_slab_in(chunk, address), address) : NULL;
}

hak_region_t *hak_piece_lock(const hak_piece_t *piece) {
  for (;;) {
    hak_region_t *region = atomic_load_explicit(&piece->region, memory_order_relaxed);
    hak_lock(&region->lock);
    if (HAK_LIKELY(atomic_load_explicit(&piece->region, memory_order_relaxed) == region)) {
      return region;
    }
    hak_unlock(&region->lock);
  }
}

static bool take_memory(hak_piece_t *piece, size_t bytes, size_t align) {
  size_t slices = hak_slices_for(bytes), align_slices = align >> HAK_SLICE_SHIFT;
  if (slices <= HAK_CHUNK_SLICES && align <= HAK_CHUNK_BYTES) {
    piece->slices = (uint32_t)slices;
    piece->chunks = 0;
    piece->base =
        hak_arena_take(slices, align_slices > HAK_SLAB_SLICES ? align_slices : HAK_SLAB_SLICES, &piece->zeroed);
  } else {
    size_t chunks = hak_round_up(bytes, HAK_CHUNK_BYTES) >> HAK_CHUNK_SHIFT;
    piece->slices = 0;
    piece->chunks = (uint32_t)chunks;
    piece->base = chunks <= UINT32_MAX ? hak_huge_chunks_take(chunks, 0, align, false, &piece->zeroed) : NULL;
  }
  if (piece->base && piece->chunks > 0) {
    hak_pagemap_chunk(piece->base)->huge_bytes = bytes;
  }
  return piece->base != NULL;
}

hak_piece_t *hak_piece_take(size_t bytes, size_t align, bool is_span) {
  hak_piece_t *piece = bytes <= PTRDIFF_MAX - align ? new_piece(is_span) : NULL;
  if (!piece) {
    return NULL;
  }
  if (!take_memory(piece, bytes, align)) {
    drop_piece(piece);
    return NULL;
  }
  piece->is_span = is_span;
  piece->charged = is_span ? 0 : hak_round_up(bytes, HAK_REGION_PAGE);
  if (is_span) {
    memset(piece->bits, 0, (piece->at + 63) / 64 * sizeof *piece->bits);
  }
  hak_span_format(piece, 0, is_span ? HAK_SPAN_STEPS : 0);
  mark(piece, true);
  return piece;
}

bool hak_piece_adopt(hak_region_t *region, void *memory, size_t bytes) {
  char *base = (char *)hak_round_up((uintptr_t)memory, HAK_BLOCK_MIN); /* NOLINT(performance-no-int-to-ptr) */
  size_t lost = (size_t)(base - (char *)memory), most = (size_t)UINT32_MAX << HAK_BLOCK_SHIFT;
  size_t use = bytes > lost ? bytes - lost : 0;
  use = (use < most ? use : most) & ~(size_t)(HAK_BLOCK_MIN - 1);
  hak_piece_t *piece = use > HAK_REGION_GIVEN_MIN ? new_piece(false) : NULL;
  if (!piece) {
    return false;
  }
  *piece = (hak_piece_t){.base = base, .is_span = true, .bits = (hak_span_bits_t *)(void *)base};
  size_t steps = use >> HAK_BLOCK_SHIFT, bits_bytes = (steps + 63) / 64 * sizeof *piece->bits;
  memset(base, 0, bits_bytes);
  hak_span_format(piece, (uint32_t)(bits_bytes >> HAK_BLOCK_SHIFT), (uint32_t)steps);
  hak_lock(&hak_pieces_lock);
  piece->given = given;
  given = piece;
  hak_unlock(&hak_pieces_lock);
  atomic_store_explicit(&any_given, true, memory_order_release);
  hak_piece_enter_locked(region, piece);
  region->current = piece;
  return true;
}

void hak_piece_enter_locked(hak_region_t *region, hak_piece_t *piece) {
  HAK_LIST_PUSH(region->pieces, piece, next, prev);
  region->span_bytes += piece->is_span ? (size_t)piece->end << HAK_BLOCK_SHIFT : 0;
  atomic_store_explicit(&piece->region, region, memory_order_relaxed);
}

void hak_piece_leave_locked(hak_piece_t *piece) {
  hak_region_t *region = atomic_load_explicit(&piece->region, memory_order_relaxed);
  hak_region_walks_pass_locked(piece);
  HAK_LIST_REMOVE(region->pieces, piece, next, prev);
  region->span_bytes -= piece->is_span ? (size_t)piece->end << HAK_BLOCK_SHIFT : 0;
  region->current = region->current == piece ? NULL : region->current;
}

static void forget_given(hak_piece_t *piece) {
  hak_lock(&hak_pieces_lock);
  hak_piece_t **link = &given;
  while (*link != piece) {
    link = &(*link)->given;
  }
  *link = piece->given;
  hak_unlock(&hak_pieces_lock);
}

void hak_piece_wipe(const hak_piece_t *piece) {
  char *from = piece->base + (piece->is_span ? (size_t)piece->first << HAK_BLOCK_SHIFT : 0);
  size_t bytes = piece->is_span ? (size_t)(piece->at - piece->first) << HAK_BLOCK_SHIFT : piece->charged;
  bool of_program = piece->slices == 0 && piece->chunks == 0;
  if (HAK_UNLIKELY(hak_hard.zero) && of_program) {
    memset(from, 0, bytes); /* discarded pages of a mapped file would show the file again */
  } else if (HAK_UNLIKELY(hak_hard.zero)) {
    hak_move_zero(from, bytes);
  }
}

void hak_piece_give(hak_piece_t *piece) {
  hak_region_unsample(piece, NULL);
  hak_piece_wipe(piece);
  if (piece->slices == 0 && piece->chunks == 0) {
    forget_given(piece);
    piece->bits = NULL;
    drop_piece(piece);
    return;
  }
  mark(piece, false);
  char *base = piece->base;
  uint32_t slices = piece->slices, chunks = piece->chunks;
  drop_piece(piece);
  if (chunks > 0) {
    hak_huge_chunks_give(base);
  } else {
    hak_arena_give(base, slices);
  }
}

static bool shrink(hak_piece_t *piece, size_t bytes) {
  size_t slices = hak_slices_for(bytes);
  if (piece->chunks > 0) {
    size_t keep = hak_round_up(bytes, HAK_CHUNK_BYTES) >> HAK_CHUNK_SHIFT;
    if (keep < piece->chunks && !hak_huge_chunks_shrink(piece->base, keep, 0)) {
      return false;
    }
    piece->chunks = (uint32_t)keep;
    hak_pagemap_chunk(piece->base)->huge_bytes = bytes;
  } else if (slices < piece->slices) {
    hak_arena_give(piece->base + (slices << HAK_SLICE_SHIFT), piece->slices - slices);
    piece->slices = (uint32_t)slices;
    mark(piece, true);
  }
  return true;
}

static bool grow(hak_piece_t *piece, size_t bytes) {
  if (piece->chunks == 0) {
    size_t slices = hak_slices_for(bytes), more = slices > piece->slices ? slices - piece->slices : 0;
    if (slices > HAK_CHUNK_SLICES || (more > 0 && !hak_arena_extend(piece->base, piece->slices, more))) {
      return false;
    }
    piece->slices += (uint32_t)more;
    mark(piece, true);
    return true;
  }
  size_t chunks = hak_round_up(bytes, HAK_CHUNK_BYTES) >> HAK_CHUNK_SHIFT;
  if (chunks > piece->chunks) {
    mark(piece, false);
    char *base = chunks <= UINT32_MAX ? hak_move_grow(piece->base, chunks, true) : NULL;
    piece->base = base ? base : piece->base;
    piece->chunks = base ? (uint32_t)chunks : piece->chunks;
    mark(piece, true);
    if (!base) {
      return false;
    }
  }
  hak_pagemap_chunk(piece->base)->huge_bytes = bytes;
  return true;
}

void *hak_piece_resize(hak_piece_t *piece, size_t bytes) {
  size_t whole = hak_round_up(bytes, HAK_REGION_PAGE);
  bool done = whole <= piece->charged ? shrink(piece, whole) : grow(piece, whole);
  return done ? piece->base : NULL;
}
