/* Duty: every size, count and shift of the heap, and the map from a request to its class. Constants only.
 *
 *   chunk   2 MiB of address space, aligned to 2 MiB; the unit of mapping
 *   slice   16 KiB, 128 to a chunk; the unit that the arena hands out inside a chunk
 *   slab    4 slices aligned to 64 KiB, divided into equal blocks of one class, 16 bytes .. 32 KiB; some have 5 slices
 *           and 4, 3 or 2 blocks, each of which begins in the first four slices
 *   run     3 .. 64 slices that are one block of a class, 48 KiB .. 1 MiB
 *   huge    a block over 1 MiB: slices of one chunk, or whole chunks and the first slices of the next */
#pragma once

#include "vocabulary.h"

enum {
  HAK_SLICE_SHIFT = 14,
  HAK_SLICE_BYTES = 1 << HAK_SLICE_SHIFT,
  HAK_PAGE_SHIFT = 12, /* logarithm of the smallest page size of any system */
  HAK_CHUNK_SHIFT = 21,
  HAK_CHUNK_BYTES = 1 << HAK_CHUNK_SHIFT,
  HAK_CHUNK_SLICES = HAK_CHUNK_BYTES / HAK_SLICE_BYTES,
  HAK_SLAB_SHIFT = 16,
  HAK_SLAB_BYTES = 1 << HAK_SLAB_SHIFT,
  HAK_SLAB_SLICES = HAK_SLAB_BYTES / HAK_SLICE_BYTES,
  HAK_CHUNK_SLABS = HAK_CHUNK_BYTES / HAK_SLAB_BYTES,

  HAK_BLOCK_MIN = 16, /* room for a free block's tag in its first word; also the alignment of every block */
  HAK_BLOCK_SHIFT = 4,
  HAK_SMALL_MAX = 40960,       /* largest request that a slab serves */
  HAK_CACHED_MAX = 1024 << 10, /* largest request that a run serves; larger ones get huge blocks */
  HAK_BLOCKS_MAX = HAK_SLAB_BYTES / HAK_BLOCK_MIN,
  HAK_BITS_WORDS = HAK_BLOCKS_MAX / 64,
};

#define HAK_CLASS(index, bytes, below, band) HAK_CLASS_##bytes = (index),
#define HAK_RUN_CLASS(index, kib, below) HAK_CLASS_##kib##K = (index),
enum {
  HAK_CLASS_NONE, /* no block starts here */
#include "classes.def"
  HAK_CLASS_COUNT,
  HAK_CLASS_HUGE = HAK_CLASS_COUNT, /* in the page map: the first slice of a huge block */
  HAK_CLASS_SAMPLED,                /* in the page map: the block's class is in the sampler's record */
  HAK_CLASS_MIXED,                  /* in the page map: a mixed slab, which has a finer map */
  HAK_BIN_COUNT,
  HAK_RUN_FIRST = HAK_CLASS_48K,
  HAK_BAND_COUNT = 8, /* C0..C7; band 8 holds the larger classes */

  HAK_BIN_WORDS = 4, /* machine words of a thread's bin. The tables below hold class * HAK_BIN_WORDS in one byte, so
                        that the machine computes a bin's address without a shift */
  /* The three classes without a bin have codes behind the last bin. These codes lead to words of 0. The fast path then
   * finds no block start there. */
  HAK_CODE_HUGE = HAK_CLASS_COUNT * HAK_BIN_WORDS - 3,
  /* The batches lie before the bins. The table of requests leads to them while the sampler is on (bin.h). */
  HAK_BATCH_LAST = HAK_CLASS_4096, /* the last class with a batch; the first is 1 */
  HAK_BATCH_WORDS = 2,
  HAK_BINS_AT = HAK_BATCH_LAST * HAK_BATCH_WORDS,
};

_Static_assert(HAK_CODE_HUGE + HAK_CLASS_MIXED - HAK_CLASS_HUGE <= UINT8_MAX, "every code fits a byte");
_Static_assert(HAK_BINS_AT + HAK_RUN_FIRST * HAK_BIN_WORDS <= UINT8_MAX, "and from the first batch on");

#define HAK_NUMBER(name, value, reason, measured) HAK_##name = value,
enum {
#include "numbers.def"
};
#undef HAK_NUMBER

enum { HAK_SMALL_STEPS = HAK_SMALL_MAX / HAK_BLOCK_MIN + 1 };
/* For each request size, in steps of 16 bytes: the bin that malloc pops from, as words behind the first batch. That is
 * the class's bin, or a batch while the sampler is on. The second table always holds the class. */
extern _Atomic uint8_t hak_class_codes[HAK_SMALL_STEPS];
extern const uint8_t hak_small_classes[HAK_SMALL_STEPS];
extern const uint32_t hak_class_sizes[HAK_BIN_COUNT]; /* block sizes in bytes */
extern const uint32_t hak_class_inverses[HAK_BIN_COUNT];
extern const uint32_t hak_class_limits[HAK_BIN_COUNT];
extern const uint8_t hak_class_bands[HAK_BIN_COUNT];

HAK_INLINE uint32_t hak_small_code(size_t bytes) {
  return atomic_load_explicit(&hak_class_codes[(bytes + HAK_BLOCK_MIN - 1) >> HAK_BLOCK_SHIFT], memory_order_relaxed);
}
/* The page map's code for a class, and the reverse. */
HAK_INLINE uint8_t hak_code_of(uint32_t cls) {
  return (uint8_t)(cls < HAK_CLASS_HUGE ? cls * HAK_BIN_WORDS : HAK_CODE_HUGE + cls - HAK_CLASS_HUGE);
}
HAK_INLINE uint32_t hak_code_class(uint32_t code) {
  return code < HAK_CODE_HUGE ? code / HAK_BIN_WORDS : code - HAK_CODE_HUGE + HAK_CLASS_HUGE;
}
HAK_INLINE bool hak_class_is_run(uint32_t cls) {
  return cls >= HAK_RUN_FIRST && cls < HAK_CLASS_COUNT;
}

/* Number of slices in a slab of the class. */
HAK_INLINE size_t hak_slab_slices(uint32_t cls) {
  bool five = cls == HAK_CLASS_20480 || cls == HAK_CLASS_27296 || cls == HAK_CLASS_40960;
  return HAK_SLAB_SLICES + (five ? 1 : 0);
}

/* The class of a request of HAK_SMALL_MAX < bytes <= HAK_CACHED_MAX. Each doubling has four classes, except the first:
 * it has two, since a quarter of it is no multiple of a slice. */
HAK_INLINE uint32_t hak_run_class_of(size_t bytes) {
  if (bytes <= HAK_SLAB_BYTES) {
    return HAK_RUN_FIRST + (bytes > HAK_SLAB_BYTES - HAK_SLICE_BYTES);
  }
  uint32_t last = (uint32_t)bytes - 1, top = 31 - (uint32_t)__builtin_clz(last);
  return HAK_RUN_FIRST + 2 + (top - 16) * 4 + ((last >> (top - 2)) & 3);
}
/* The class of any request up to HAK_CACHED_MAX. */
HAK_INLINE uint32_t hak_class_of(size_t bytes) {
  return bytes <= HAK_SMALL_MAX ? hak_small_classes[(bytes + HAK_BLOCK_MIN - 1) / HAK_BLOCK_MIN]
                                : hak_run_class_of(bytes);
}

/* Finds block starts by multiplication (Lemire, Kaser, Kurz 2019, "Faster remainder by direct computation"). Let d =
 * block bytes, m = ceil(2^32 / d), e = d * m - 2^32 < d, and n < 2^16 an offset in a slab. Then n / d = (n * m) >> 32.
 * At the start of block i, n * m mod 2^32 is i * e; at any other offset it is at least m, which is larger than every i
 * * e. So a limit of (blocks - 1) * e + 1 passes exactly the starts of `blocks` blocks. If e = 0, d is a power of two,
 * and every multiple of d is a block. For runs and huge blocks, m = 2^18 with a limit of 1 passes only the start of a
 * slice. */
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
HAK_INLINE bool hak_is_power_of_two(size_t n) {
  return n != 0 && (n & (n - 1)) == 0;
}
HAK_INLINE size_t hak_slices_for(size_t bytes) {
  return (bytes + HAK_SLICE_BYTES - 1) >> HAK_SLICE_SHIFT;
}
