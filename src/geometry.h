/* Duty: every size, count and shift of the heap, and the map from a request to its class. Constants only.
 *
 *   window     one range of addresses, 64 GiB .. 1 TiB, mapped piece by piece
 *   slot       2 MiB of the window; mapped and unmapped as a whole (a mapped slot is called a superslab)
 *   unit       64 KiB; 32 to a slot; one unit is one slab, or part of a large block
 *   block      what the caller gets: a slab is cut into equal blocks of its class
 */
#ifndef HAK_GEOMETRY_H
#define HAK_GEOMETRY_H

#include "base.h"

enum {
  HAK_UNIT_SHIFT = 16,
  HAK_UNIT_BYTES = 1 << HAK_UNIT_SHIFT,
  HAK_SLOT_SHIFT = 21,
  HAK_SLOT_BYTES = 1 << HAK_SLOT_SHIFT,
  HAK_SLOT_UNITS = HAK_SLOT_BYTES / HAK_UNIT_BYTES,

  HAK_BLOCK_MIN = 16, /* room for a free block's link and tag; also the alignment of every block */
  HAK_BLOCK_SHIFT = 4,
  HAK_SMALL_MAX = 32768, /* larger requests are large blocks */
  HAK_BLOCKS_MAX = HAK_UNIT_BYTES / HAK_BLOCK_MIN,
  HAK_BITS_WORDS = HAK_BLOCKS_MAX / 64,
};

#define HAK_CLASS(index, bytes, below, band) +1
enum {
  HAK_CLASS_COUNT = 1 /* class 0: no block starts here */
#include "classes.def"
};
#undef HAK_CLASS

enum {
  HAK_CLASS_NONE = 0,
  HAK_CLASS_LARGE = HAK_CLASS_COUNT, /* value of the class map for the first unit of a large block */
  HAK_BIN_COUNT = HAK_CLASS_COUNT + 1,
  HAK_BAND_COUNT = 8, /* C0..C7; band 8 holds the mid classes */
};

/* 64 classes would still fit the byte map; the bins of a thread are sized by this. */
_Static_assert(HAK_BIN_COUNT <= 64, "the bins of one thread should stay within a page");
_Static_assert(HAK_SLOT_UNITS == 32, "one 32-bit mask covers a slot");

extern const uint8_t hak_class_table[HAK_SMALL_MAX / HAK_BLOCK_MIN + 1];
extern const uint32_t hak_class_sizes[HAK_BIN_COUNT];    /* bytes of a block */
extern const uint32_t hak_class_inverses[HAK_BIN_COUNT]; /* ceil(2^32 / bytes); 0 for NONE and LARGE */
extern const uint8_t hak_class_bands[HAK_BIN_COUNT];

HAK_INLINE uint32_t hak_class_of(size_t bytes) {
  return hak_class_table[(bytes + HAK_BLOCK_MIN - 1) >> HAK_BLOCK_SHIFT];
}

/* For d = block bytes, m = ceil(2^32 / d) and an offset n < 2^16 (Lemire, Kaser, Kurz 2019, "Faster remainder
 * by direct computation"):  n / d = (n * m) >> 32,  and d divides n exactly when (n * m) mod 2^32 < m. */
HAK_INLINE uint32_t hak_unit_offset(const void *block) {
  return (uint32_t)(uintptr_t)block & (HAK_UNIT_BYTES - 1);
}
HAK_INLINE bool hak_is_block_start(const void *block, uint32_t inverse) {
  return hak_unit_offset(block) * inverse < inverse;
}
HAK_INLINE uint32_t hak_block_index(const void *block, uint32_t inverse) {
  return (uint32_t)(((uint64_t)hak_unit_offset(block) * inverse) >> 32);
}
HAK_INLINE uint32_t hak_class_blocks(uint32_t cls) {
  return HAK_UNIT_BYTES / hak_class_sizes[cls];
}

HAK_INLINE size_t hak_round_up(size_t bytes, size_t power_of_two) {
  return (bytes + power_of_two - 1) & ~(power_of_two - 1);
}
HAK_INLINE size_t hak_units_for(size_t bytes) {
  return (bytes + HAK_UNIT_BYTES - 1) >> HAK_UNIT_SHIFT;
}

#endif
