/* Duty: sets of slices of one chunk, as bits. Pure functions. Layers below: types. */
#pragma once

#include "types.h"

#define HAK_MASK_ALL (~(hak_mask_t)0)

/* `count` bits from `first` on; first + count <= HAK_CHUNK_SLICES. */
HAK_INLINE hak_mask_t hak_mask_of(size_t first, size_t count) {
  hak_mask_t low = count == HAK_CHUNK_SLICES ? HAK_MASK_ALL : ((hak_mask_t)1 << count) - 1;
  return count == 0 ? 0 : low << first;
}
HAK_INLINE uint32_t hak_mask_count(hak_mask_t mask) {
  return hak_count_bits((uint64_t)mask) + hak_count_bits((uint64_t)(mask >> 64));
}
/* Number of the lowest bit; `mask` is not 0. */
HAK_INLINE uint32_t hak_mask_lowest(hak_mask_t mask) {
  return (uint64_t)mask ? (uint32_t)__builtin_ctzll((uint64_t)mask)
                        : 64 + (uint32_t)__builtin_ctzll((uint64_t)(mask >> 64));
}
/* The bits at which runs of at least `count` >= 1 bits begin. */
HAK_INLINE hak_mask_t hak_mask_starts(hak_mask_t mask, size_t count) {
  for (size_t have = 1; have < count && mask;) {
    size_t step = have < count - have ? have : count - have;
    mask &= mask >> step;
    have += step;
  }
  return mask;
}
/* The bits at multiples of `align`, a power of two. */
HAK_INLINE hak_mask_t hak_mask_aligned(size_t align) {
  hak_mask_t mask = 1;
  if (align == 1) { /* the usual case */
    return HAK_MASK_ALL;
  }
  for (size_t at = align; at < HAK_CHUNK_SLICES; at *= 2) {
    mask |= mask << at;
  }
  return mask;
}
/* The length of the longest run of bits. */
HAK_INLINE uint32_t hak_mask_longest(hak_mask_t mask) {
  hak_mask_t rows[8]; /* rows[i]: where runs of 2^i bits begin */
  uint32_t top = 0, longest = mask != 0;
  rows[0] = mask;
  while (top < 7 && (rows[top + 1] = rows[top] & rows[top] >> longest)) {
    longest = 1U << ++top;
  }
  hak_mask_t starts = rows[top];
  for (uint32_t i = top; i-- > 0 && longest < HAK_CHUNK_SLICES;) {
    hak_mask_t longer = starts & rows[i] >> longest;
    if (longer) {
      starts = longer;
      longest += 1U << i;
    }
  }
  return longest;
}
/* The highest `count` bits, or all if there are fewer. */
HAK_INLINE hak_mask_t hak_mask_highest(hak_mask_t mask, size_t count) {
  for (size_t more = hak_mask_count(mask); more > count; more--) {
    mask &= mask - 1;
  }
  return mask;
}
/* The length of the run around bit `at`, which is set. */
HAK_INLINE uint32_t hak_mask_row_around(hak_mask_t mask, size_t at) {
  hak_mask_t above = ~(mask >> at), below = ~mask << (HAK_CHUNK_SLICES - 1 - at);
  uint32_t up = above ? hak_mask_lowest(above) : (uint32_t)(HAK_CHUNK_SLICES - at);
  uint32_t down = (uint32_t)at + 1;
  if ((uint64_t)(below >> 64)) {
    down = (uint32_t)__builtin_clzll((uint64_t)(below >> 64));
  } else if ((uint64_t)below) {
    down = 64 + (uint32_t)__builtin_clzll((uint64_t)below);
  }
  return up + down - 1;
}
/* The lowest run of bits: returns its first bit, and sets its length. `mask` is not 0. */
HAK_INLINE uint32_t hak_mask_row(hak_mask_t mask, uint32_t *count) {
  uint32_t first = hak_mask_lowest(mask);
  hak_mask_t rest = ~(mask >> first);
  *count = rest ? hak_mask_lowest(rest) : HAK_CHUNK_SLICES;
  return first;
}
