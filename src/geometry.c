#include "geometry.h"

#define HAK_CLASS(index, bytes, below, band) [(below) / HAK_BLOCK_MIN + 1 ...(bytes) / HAK_BLOCK_MIN] = (index),
_Alignas(HAK_CACHE_LINE) const uint8_t hak_class_table[HAK_SMALL_MAX / HAK_BLOCK_MIN + 1] = {
    [0] = 1, /* malloc(0) is a block of the smallest class */
#include "classes.def"
};
#undef HAK_CLASS

#define HAK_CLASS(index, bytes, below, band) [index] = (bytes),
const uint32_t hak_class_sizes[HAK_BIN_COUNT] = {
#include "classes.def"
};
#undef HAK_CLASS

#define HAK_CLASS(index, bytes, below, band) [index] = (uint32_t)(((1ULL << 32) + (bytes)-1) / (bytes)),
const uint32_t hak_class_inverses[HAK_BIN_COUNT] = {
#include "classes.def"
};
#undef HAK_CLASS

#define HAK_CLASS(index, bytes, below, band) [index] = (band),
const uint8_t hak_class_bands[HAK_BIN_COUNT] = {
#include "classes.def"
};
#undef HAK_CLASS

#define HAK_CLASS(index, bytes, below, band) \
  _Static_assert((bytes) % HAK_BLOCK_MIN == 0 && (bytes) > (below), "class " #index ": sizes ascend in steps of 16");
#include "classes.def"
#undef HAK_CLASS
