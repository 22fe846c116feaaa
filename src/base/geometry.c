/* The tables of size classes: sizes, limits, inverses. Constants, for every layer. */
#include "geometry.h"

#define HAK_CLASS(index, bytes, below, band) \
  [(below) / HAK_BLOCK_MIN + 1 ...(bytes) / HAK_BLOCK_MIN] = HAK_BINS_AT + (index)*HAK_BIN_WORDS,
#define HAK_RUN_CLASS(index, kib, below)
_Alignas(HAK_CACHE_LINE) _Atomic uint8_t hak_class_codes[HAK_SMALL_STEPS] HAK_READ_DATA = {
    [0] = HAK_BINS_AT, /* the bin that is always empty: the slow path makes blocks of no bytes */
#include "classes.def"
};

#define HAK_CLASS(index, bytes, below, band) [(below) / HAK_BLOCK_MIN + 1 ...(bytes) / HAK_BLOCK_MIN] = (index),
#define HAK_RUN_CLASS(index, kib, below)
const uint8_t hak_small_classes[HAK_SMALL_STEPS] = {
    [0] = 1, /* the class that serves when all addresses for blocks of no bytes are in use */
#include "classes.def"
};

#define HAK_CLASS(index, bytes, below, band) [index] = (bytes),
#define HAK_RUN_CLASS(index, kib, below) [index] = (kib)*1024,
const uint32_t hak_class_sizes[HAK_BIN_COUNT] = {
#include "classes.def"
};

#define INVERSE(bytes) (((1ULL << 32) + (bytes)-1) / (bytes))
#define HAK_CLASS(index, bytes, below, band) [index] = (uint32_t)INVERSE(bytes),
#define HAK_RUN_CLASS(index, kib, below) [index] = (uint32_t)INVERSE(HAK_SLICE_BYTES),
const uint32_t hak_class_inverses[HAK_BIN_COUNT] = {
#include "classes.def"
    [HAK_CLASS_HUGE] = (uint32_t)INVERSE(HAK_SLICE_BYTES),
};

#define IS_OF_FIVE(bytes) ((bytes) == 20480 || (bytes) == 27296 || (bytes) == 40960)
#define BLOCKS(bytes) ((HAK_SLAB_BYTES + (IS_OF_FIVE(bytes) ? HAK_SLICE_BYTES : 0)) / (bytes))
#define HAK_CLASS(index, bytes, below, band) \
  [index] = (uint32_t)((BLOCKS(bytes) - 1) * (INVERSE(bytes) * (bytes) - (1ULL << 32)) + 1),
#define HAK_RUN_CLASS(index, kib, below) [index] = 1,
const uint32_t hak_class_limits[HAK_BIN_COUNT] = {
#include "classes.def"
    [HAK_CLASS_HUGE] = 1,
};

#define HAK_CLASS(index, bytes, below, band) [index] = (band),
#define HAK_RUN_CLASS(index, kib, below) [index] = HAK_BAND_COUNT,
const uint8_t hak_class_bands[HAK_BIN_COUNT] = {
#include "classes.def"
};

#define HAK_CLASS(index, bytes, below, band) \
  _Static_assert((bytes) % HAK_BLOCK_MIN == 0 && (bytes) > (below), "class " #index ": sizes ascend in steps of 16");
#define HAK_RUN_CLASS(index, kib, below) \
  _Static_assert((kib)*1024 % HAK_SLICE_BYTES == 0 && (kib) > (below), "class " #index ": whole slices, ascending");
#include "classes.def"
