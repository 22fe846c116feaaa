/* Size classes: every request gets the smallest class that holds it; exactly the starts of blocks pass. */
#include "base/geometry.h"

#include "check.h"

static void a_request_gets_the_smallest_class_that_holds_it(void) {
  CHECK(hak_class_of(0) == 1);
  for (size_t bytes = 1; bytes <= HAK_CACHED_MAX; bytes++) {
    uint32_t cls = hak_class_of(bytes);
    CHECK(cls > HAK_CLASS_NONE && cls < HAK_CLASS_COUNT);
    CHECK(hak_class_sizes[cls] >= bytes);
    CHECK(hak_class_sizes[cls - 1] < bytes);
    CHECK(hak_class_is_run(cls) == (bytes > HAK_SMALL_MAX));
  }
  CHECK(hak_class_of(HAK_SMALL_MAX) == HAK_RUN_FIRST - 1 && hak_class_of(HAK_SMALL_MAX + 1) == HAK_RUN_FIRST);
  CHECK(hak_class_of(HAK_CACHED_MAX) == HAK_CLASS_COUNT - 1);
  CHECK(!hak_class_is_run(HAK_CLASS_NONE) && !hak_class_is_run(HAK_CLASS_HUGE));
}

/* The offsets that the fast paths add to the address of the bins. The bin of class 0 is always empty, since the slow
 * path serves blocks of no bytes. */
static void codes_lead_to_bins(void) {
  CHECK(hak_small_code(0) == HAK_BINS_AT);
  for (size_t bytes = 1; bytes <= HAK_SMALL_MAX; bytes++) {
    CHECK(hak_small_code(bytes) == HAK_BINS_AT + hak_class_of(bytes) * HAK_BIN_WORDS);
  }
}

static void sizes_ascend_and_waste_little(void) {
  enum { PAGE = 4096 };
  CHECK(hak_class_sizes[HAK_CLASS_NONE] == 0 && hak_class_sizes[HAK_CLASS_HUGE] == 0);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    uint32_t bytes = hak_class_sizes[cls], below = hak_class_sizes[cls - 1];
    CHECK(bytes > below && bytes % HAK_BLOCK_MIN == 0);
    uint32_t least = below + 1, more = cls == HAK_CLASS_64K ? PAGE : HAK_BLOCK_MIN;
    CHECK(bytes <= 64 || bytes <= least + least / 4 + more); /* a quarter, plus the step of the sizes */
  }
  CHECK(hak_class_sizes[HAK_RUN_FIRST - 1] == HAK_SMALL_MAX);
  CHECK(hak_class_sizes[HAK_CLASS_COUNT - 1] == HAK_CACHED_MAX);
}

/* Programs that keep many blocks of one size often have an array of such a size behind a header. */
static void headers_before_arrays_waste_little(void) {
  static const size_t arrays[] = {256, 384, 512, 1024, 4096};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    for (size_t header = HAK_BLOCK_MIN; header <= 2 * HAK_BLOCK_MIN; header += HAK_BLOCK_MIN) {
      size_t bytes = arrays[i] + header;
      CHECK(hak_class_sizes[hak_class_of(bytes)] <= bytes + bytes / 10);
    }
  }
}

static uint32_t blocks_of(uint32_t cls) {
  return (uint32_t)(hak_slab_slices(cls) * HAK_SLICE_BYTES) / hak_class_sizes[cls];
}

static void slabs_are_cut_and_runs_are_slices(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    CHECK(blocks_of(cls) >= 2 && blocks_of(cls) <= HAK_BLOCKS_MAX);
    CHECK((blocks_of(cls) - 1) * hak_class_sizes[cls] < HAK_SLAB_BYTES); /* every block begins within 64 KiB */
  }
  for (uint32_t cls = HAK_RUN_FIRST; cls < HAK_CLASS_COUNT; cls++) {
    CHECK(hak_class_sizes[cls] % HAK_SLICE_BYTES == 0 && hak_class_sizes[cls] <= HAK_CHUNK_BYTES / 2);
  }
}

static void every_power_of_two_is_a_class(void) {
  for (uint32_t bytes = HAK_BLOCK_MIN; bytes <= HAK_CACHED_MAX; bytes *= 2) {
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
  static const uintptr_t slab = (uintptr_t)0x7f12345 << HAK_SLAB_SHIFT;
  return hide_pointer((const char *)slab + offset); /* NOLINT(performance-no-int-to-ptr) */
}

/* No block starts in the rest of a slab behind its last block. Addresses behind 64 KiB have no class. */
static void exactly_the_blocks_of_a_slab_start(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    uint32_t bytes = hak_class_sizes[cls], inverse = hak_class_inverses[cls], limit = hak_class_limits[cls];
    uint32_t starts = 0;
    for (uint32_t offset = 0; offset < HAK_SLAB_BYTES; offset++) {
      const char *address = at_offset(offset);
      bool starts_here = offset % bytes == 0 && offset / bytes < blocks_of(cls);
      CHECK(hak_is_block_start(address, inverse, limit) == starts_here);
      CHECK(hak_block_index(address, inverse) == offset / bytes);
      starts += starts_here;
    }
    CHECK(starts == blocks_of(cls));
  }
}

/* Every start of a slice passes; the page map shows which of them begins a run or a huge block. */
static void runs_and_huge_blocks_start_a_slice(void) {
  for (uint32_t cls = HAK_RUN_FIRST; cls <= HAK_CLASS_HUGE; cls++) {
    for (uint32_t offset = 0; offset < HAK_SLAB_BYTES; offset++) {
      CHECK(hak_is_block_start(at_offset(offset), hak_class_inverses[cls], hak_class_limits[cls]) ==
            (offset % HAK_SLICE_BYTES == 0));
    }
  }
}

static void no_block_starts_without_a_class(void) {
  for (uint32_t offset = 0; offset < HAK_SLAB_BYTES; offset++) {
    CHECK(!hak_is_start_in_class(at_offset(offset), HAK_CLASS_NONE));
  }
}

static void rounding_goes_up(void) {
  CHECK(hak_round_up(0, 64) == 0 && hak_round_up(1, 64) == 64);
  CHECK(hak_round_up(64, 64) == 64 && hak_round_up(65, 64) == 128);
  CHECK(hak_slices_for(0) == 0 && hak_slices_for(1) == 1);
  CHECK(hak_slices_for(HAK_SLICE_BYTES) == 1 && hak_slices_for(HAK_SLICE_BYTES + 1) == 2);
  CHECK(hak_slices_for(HAK_CHUNK_BYTES) == HAK_CHUNK_SLICES);
  CHECK(hak_slices_for(PTRDIFF_MAX) == (size_t)1 << (63 - HAK_SLICE_SHIFT));
}

int main(void) {
  a_request_gets_the_smallest_class_that_holds_it();
  codes_lead_to_bins();
  sizes_ascend_and_waste_little();
  headers_before_arrays_waste_little();
  slabs_are_cut_and_runs_are_slices();
  every_power_of_two_is_a_class();
  bands_double_from_32_bytes();
  exactly_the_blocks_of_a_slab_start();
  runs_and_huge_blocks_start_a_slice();
  no_block_starts_without_a_class();
  rounding_goes_up();
  return 0;
}
