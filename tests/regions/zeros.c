/* Under the hardened profile nothing of a region's blocks is left once they are freed, reset or destroyed. */
#include "check.h"
#include "hakmem.h"
#include "pattern.h"

#include <string.h>

enum { BYTES = 1000, LARGE = 100000, LINKS = 16 };

/* The first two words of a free block are the heap's. */
static void expect_zeros(const char *block, size_t bytes) {
  const volatile char *at = hide_pointer(block);
  for (size_t i = LINKS; i < bytes; i++) {
    CHECK(at[i] == 0);
  }
}

static char *filled(hak_region_t *region, size_t bytes) {
  char *block = hak_region_malloc(region, bytes);
  CHECK(block != NULL);
  return memset(block, 0x5a, bytes);
}

static void in_the_heap(void) {
  hak_region_t *region = hak_region_new(NULL), *other = hak_region_new(NULL);
  char *kept = filled(region, BYTES), *block = filled(region, BYTES);
  hak_free(block);
  expect_zeros(block, BYTES);
  hak_region_reset(region);
  expect_zeros(kept, BYTES);
  for (int round = 0; round < 4; round++) { /* one region's large block lies where another's was */
    hak_free(filled(region, LARGE));
    block = hak_region_malloc(other, LARGE);
    expect_zeros(block, LARGE);
    hak_free(block);
  }
  hak_region_destroy(region);
  hak_region_destroy(other);
}

static void in_given_memory(void) {
  static char memory[300000];
  hak_region_t *region = hak_region_new(&(hak_region_options_t){.memory = memory, .memory_bytes = sizeof memory});
  char *block = filled(region, BYTES), *large = filled(region, LARGE);
  hak_region_destroy(region);
  expect_zeros(block - LINKS, BYTES + LINKS);
  expect_zeros(large - LINKS, LARGE + LINKS);
}

int main(void) {
  in_the_heap();
  in_given_memory();
  return 0;
}
