/* Duty: every size, count and shift of the heap, and the map from a request to its class. Constants only.
 *
 *   chunk   2 MiB of address space at a multiple of 2 MiB; what is mapped and unmapped
 *   slice   16 KiB; 128 to a chunk; what is handed out inside a chunk
 *   slab    4 slices at a multiple of 64 KiB, cut into equal blocks of one class, 16 bytes .. 32 KiB; or 5, cut into
 *           4, 3 or 2: each of these, too, begins in the first four
 *   run     3 .. 64 slices that are one block of a class, 48 KiB .. 1 MiB
 *   huge    a block over 1 MiB: slices of one chunk, or whole chunks and the first slices of the next */
#pragma once

#include "base.h"

enum {
  HAK_SLICE_SHIFT = 14,
  HAK_SLICE_BYTES = 1 << HAK_SLICE_SHIFT,
  HAK_PAGE_SHIFT = 12, /* of the smallest pages that a system has */
  HAK_CHUNK_SHIFT = 21,
  HAK_CHUNK_BYTES = 1 << HAK_CHUNK_SHIFT,
  HAK_CHUNK_SLICES = HAK_CHUNK_BYTES / HAK_SLICE_BYTES,
  HAK_SLAB_SHIFT = 16,
  HAK_SLAB_BYTES = 1 << HAK_SLAB_SHIFT,
  HAK_SLAB_SLICES = HAK_SLAB_BYTES / HAK_SLICE_BYTES,
  HAK_CHUNK_SLABS = HAK_CHUNK_BYTES / HAK_SLAB_BYTES,

  HAK_BLOCK_MIN = 16, /* room for a free block's tag, in its first word; also the alignment of every block */
  HAK_BLOCK_SHIFT = 4,
  HAK_SMALL_MAX = 40960,       /* up to here blocks lie in slabs */
  HAK_CACHED_MAX = 1024 << 10, /* up to here they are runs; larger requests are huge blocks */
  HAK_BLOCKS_MAX = HAK_SLAB_BYTES / HAK_BLOCK_MIN,
  HAK_BITS_WORDS = HAK_BLOCKS_MAX / 64,
};

#define HAK_CLASS(index, bytes, below, band) HAK_CLASS_##bytes = (index),
#define HAK_RUN_CLASS(index, kib, below) HAK_CLASS_##kib##K = (index),
enum {
  HAK_CLASS_NONE, /* no block starts here */
#include "classes.def"
  HAK_CLASS_COUNT,
  HAK_CLASS_HUGE = HAK_CLASS_COUNT, /* the first slice of a huge block */
  HAK_CLASS_SAMPLED,                /* in the page map: the sampler has a record of the block, and knows its class */
  HAK_BIN_COUNT,
  HAK_RUN_FIRST = HAK_CLASS_48K,
  HAK_BAND_COUNT = 8, /* C0..C7; band 8 holds the classes above */

  HAK_BIN_WORDS = 4, /* machine words of a thread's bin: the tables below hold class * HAK_BIN_WORDS, one byte each,
                        from which the machine gets a bin's address without a shift */
  /* In the page map the two classes without a bin lead behind the last one, to words that are 0: no block starts there,
     as far as the fast path sees. */
  HAK_CODE_HUGE = HAK_CLASS_COUNT * HAK_BIN_WORDS - 3,
  /* Before the bins there are grants, which the table of requests leads to while the sampler is on (bin.h). */
  HAK_GRANT_LAST = HAK_CLASS_4096, /* of the classes that have one; the first is 1 */
  HAK_GRANT_WORDS = 2,
  HAK_BINS_AT = HAK_GRANT_LAST * HAK_GRANT_WORDS,
};

_Static_assert(HAK_CODE_HUGE + HAK_CLASS_SAMPLED - HAK_CLASS_HUGE <= UINT8_MAX, "every code fits a byte");
_Static_assert(HAK_BINS_AT + HAK_RUN_FIRST * HAK_BIN_WORDS <= UINT8_MAX, "and from the first grant on");

enum { HAK_SMALL_STEPS = HAK_SMALL_MAX / HAK_BLOCK_MIN + 1 };
/* By request, in steps of 16 bytes: the words between the first grant and the bin that malloc takes from, which is its
 * class's or, while the sampler is on, a grant; and the class, always. */
extern _Atomic uint8_t hak_class_codes[HAK_SMALL_STEPS];
extern const uint8_t hak_small_classes[HAK_SMALL_STEPS];
extern const uint32_t hak_class_sizes[HAK_BIN_COUNT]; /* bytes of a block */
extern const uint32_t hak_class_inverses[HAK_BIN_COUNT];
extern const uint32_t hak_class_limits[HAK_BIN_COUNT];
extern const uint8_t hak_class_bands[HAK_BIN_COUNT];

HAK_INLINE uint32_t hak_small_code(size_t bytes) {
  return atomic_load_explicit(&hak_class_codes[(bytes + HAK_BLOCK_MIN - 1) >> HAK_BLOCK_SHIFT], memory_order_relaxed);
}
/* What stands for a class in the page map, and back. */
HAK_INLINE uint8_t hak_code_of(uint32_t cls) {
  return (uint8_t)(cls < HAK_CLASS_HUGE ? cls * HAK_BIN_WORDS : HAK_CODE_HUGE + cls - HAK_CLASS_HUGE);
}
HAK_INLINE uint32_t hak_code_class(uint32_t code) {
  return code < HAK_CODE_HUGE ? code / HAK_BIN_WORDS : code - HAK_CODE_HUGE + HAK_CLASS_HUGE;
}
HAK_INLINE bool hak_class_is_run(uint32_t cls) {
  return cls >= HAK_RUN_FIRST && cls < HAK_CLASS_COUNT;
}

/* Slices of a slab of the class. */
HAK_INLINE size_t hak_slab_slices(uint32_t cls) {
  bool five = cls == HAK_CLASS_20480 || cls == HAK_CLASS_27296 || cls == HAK_CLASS_40960;
  return HAK_SLAB_SLICES + (five ? 1 : 0);
}

/* The class of a request of HAK_SMALL_MAX < bytes <= HAK_CACHED_MAX: four to a doubling, but in the first, whose
 * quarters are no slices, two. */
HAK_INLINE uint32_t hak_run_class_of(size_t bytes) {
  if (bytes <= HAK_SLAB_BYTES) {
    return HAK_RUN_FIRST + (bytes > HAK_SLAB_BYTES - HAK_SLICE_BYTES);
  }
  uint32_t last = (uint32_t)bytes - 1, top = 31 - (uint32_t)__builtin_clz(last);
  return HAK_RUN_FIRST + 2 + (top - 16) * 4 + ((last >> (top - 2)) & 3);
}
/* Any request up to HAK_CACHED_MAX. */
HAK_INLINE uint32_t hak_class_of(size_t bytes) {
  return bytes <= HAK_SMALL_MAX ? hak_small_classes[(bytes + HAK_BLOCK_MIN - 1) / HAK_BLOCK_MIN]
                                : hak_run_class_of(bytes);
}

/* For d = block bytes, m = ceil(2^32 / d) and an offset n < 2^16 in a slab (Lemire, Kaser, Kurz 2019, "Faster remainder
 * by direct computation"):  n / d = (n * m) >> 32,  and n * m mod 2^32 is i * e for the start of block i, where
 * e = d * m - 2^32 < d, and at least m, which is more than all of these, for everything else. So for `blocks` blocks a
 * limit of (blocks - 1) * e + 1 lets exactly their starts pass. (e = 0: all multiples of d pass; then d is a power of
 * two, and all of them are blocks.) Runs and huge blocks: m = 2^18 and 1 as the limit: only the start of a slice
 * passes. */
HAK_INLINE uint32_t hak_slab_offset(const void *block) {
  return (uint32_t)(uintptr_t)block & (HAK_SLAB_BYTES - 1);
}
HAK_INLINE bool hak_is_block_start(const void *block, uint32_t inverse, uint32_t limit) {
  return hak_slab_offset(block) * inverse < limit;
}
HAK_INLINE uint32_t hak_block_index(const void *block, uint32_t inverse) {
  return (uint32_t)(((uint64_t)hak_slab_offset(block) * inverse) >> 32);
}
/* Whether a block of the class may start there. */
HAK_INLINE bool hak_is_start_in_class(const void *block, uint32_t cls) {
  return hak_is_block_start(block, hak_class_inverses[cls], hak_class_limits[cls]);
}

HAK_INLINE size_t hak_round_up(size_t bytes, size_t power_of_two) {
  return (bytes + power_of_two - 1) & ~(power_of_two - 1);
}
HAK_INLINE size_t hak_slices_for(size_t bytes) {
  return (bytes + HAK_SLICE_BYTES - 1) >> HAK_SLICE_SHIFT;
}
