/* Size classes: every request gets the smallest class that holds it; division by multiplication is exact. */
#include "geometry.h"

#include "check.h"

static void a_request_gets_the_smallest_class_that_holds_it(void) {
  CHECK(hak_class_of(0) == 1);
  for (size_t bytes = 1; bytes <= HAK_SMALL_MAX; bytes++) {
    uint32_t cls = hak_class_of(bytes);
    CHECK(cls > HAK_CLASS_NONE && cls < HAK_CLASS_LARGE);
    CHECK(hak_class_sizes[cls] >= bytes);
    CHECK(hak_class_sizes[cls - 1] < bytes);
  }
}

static void sizes_ascend_and_waste_little(void) {
  CHECK(hak_class_sizes[HAK_CLASS_NONE] == 0 && hak_class_sizes[HAK_CLASS_LARGE] == 0);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    uint32_t bytes = hak_class_sizes[cls], below = hak_class_sizes[cls - 1];
    CHECK(bytes > below && bytes % HAK_BLOCK_MIN == 0);
    CHECK(bytes <= 64 || (bytes - below - 1) * 5 <= bytes);
    CHECK(hak_class_blocks(cls) >= 2 && hak_class_blocks(cls) <= HAK_BLOCKS_MAX);
    CHECK(hak_class_blocks(cls) * bytes <= HAK_UNIT_BYTES);
    CHECK((hak_class_blocks(cls) + 1) * bytes > HAK_UNIT_BYTES);
  }
  CHECK(hak_class_sizes[HAK_CLASS_COUNT - 1] == HAK_SMALL_MAX);
}

static void every_power_of_two_is_a_class(void) {
  for (uint32_t bytes = HAK_BLOCK_MIN; bytes <= HAK_SMALL_MAX; bytes *= 2) {
    CHECK(hak_class_sizes[hak_class_of(bytes)] == bytes);
  }
}

static void bands_double_from_32_bytes(void) {
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    uint32_t band = hak_class_bands[cls], bytes = hak_class_sizes[cls];
    CHECK(band <= HAK_BAND_COUNT);
    CHECK(band == HAK_BAND_COUNT || bytes <= 32U << band);
    CHECK(band == 0 || bytes > 32U << (band - 1));
  }
}

static const char *at_offset(uint32_t offset) {
  static const uintptr_t unit = (uintptr_t)0x7f12345 << HAK_UNIT_SHIFT;
  return hide_pointer((const char *)unit + offset); /* NOLINT(performance-no-int-to-ptr) */
}

static void division_is_exact(void) {
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    uint32_t bytes = hak_class_sizes[cls], inverse = hak_class_inverses[cls];
    for (uint32_t offset = 0; offset < HAK_UNIT_BYTES; offset++) {
      const char *address = at_offset(offset);
      CHECK(hak_is_block_start(address, inverse) == (offset % bytes == 0));
      CHECK(hak_block_index(address, inverse) == offset / bytes);
    }
  }
}

static void no_block_starts_without_a_class(void) {
  CHECK(hak_class_inverses[HAK_CLASS_NONE] == 0 && hak_class_inverses[HAK_CLASS_LARGE] == 0);
  for (uint32_t offset = 0; offset < HAK_UNIT_BYTES; offset += HAK_BLOCK_MIN) {
    CHECK(!hak_is_block_start(at_offset(offset), 0));
  }
}

static void rounding_goes_up(void) {
  CHECK(hak_round_up(0, 64) == 0 && hak_round_up(1, 64) == 64);
  CHECK(hak_round_up(64, 64) == 64 && hak_round_up(65, 64) == 128);
  CHECK(hak_units_for(0) == 0 && hak_units_for(1) == 1);
  CHECK(hak_units_for(HAK_UNIT_BYTES) == 1 && hak_units_for(HAK_UNIT_BYTES + 1) == 2);
  CHECK(hak_units_for((size_t)HAK_SLOT_BYTES) == HAK_SLOT_UNITS);
}

int main(void) {
  a_request_gets_the_smallest_class_that_holds_it();
  sizes_ascend_and_waste_little();
  every_power_of_two_is_a_class();
  bands_double_from_32_bytes();
  division_is_exact();
  no_block_starts_without_a_class();
  rounding_goes_up();
  return 0;
}
