/* Under HAKMEM_HARDENED_REGIONS=1 the addresses of a class of small blocks serve no other class, unless memory is
 * short. The memory behind them goes back to the system all the same. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "hakmem.h"

enum { REGION_SHIFT = 16, HEAP_BYTES = 32 << 20, ROUNDS = 2 };

static const size_t sizes[] = {40, 1000, 9000, 20000, 30000};
enum { SIZES = sizeof sizes / sizeof *sizes, BLOCKS_MAX = HEAP_BYTES / 40 };
static char *blocks[BLOCKS_MAX];
static uintptr_t *regions[SIZES]; /* of all blocks that a size ever had, in ascending order */
static size_t counts[SIZES];

static int compare(const void *one, const void *other) {
  uintptr_t a = *(const uintptr_t *)one, b = *(const uintptr_t *)other;
  return (a > b) - (a < b);
}

/* Fill the heap with blocks of one size, note where they lie, and free them all. Returns how many there were. */
static size_t fill_and_free(size_t size, uintptr_t *noted) {
  size_t count = HEAP_BYTES / size;
  for (size_t i = 0; i < count; i++) {
    CHECK((blocks[i] = malloc(size)) != NULL);
    memset(blocks[i], 0x5a, size);
    noted[i] = (uintptr_t)blocks[i] >> REGION_SHIFT;
  }
  for (size_t i = 0; i < count; i++) {
    free(blocks[i]);
  }
  return count;
}

/* The number of regions that two sizes have had both. */
static size_t shared(void) {
  size_t found = 0;
  for (size_t a = 0; a < SIZES; a++) {
    qsort(regions[a], counts[a], sizeof **regions, compare);
    for (size_t b = 0; b < a; b++) {
      for (size_t i = 0; i < counts[a]; i++) {
        found += bsearch(&regions[a][i], regions[b], counts[b], sizeof **regions, compare) != NULL;
      }
    }
  }
  return found;
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  for (size_t s = 0; s < SIZES; s++) {
    CHECK((regions[s] = calloc(ROUNDS * (HEAP_BYTES / sizes[s]), sizeof **regions)) != NULL);
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t s = 0; s < SIZES; s++) {
      counts[s] += fill_and_free(sizes[s], regions[s] + counts[s]);
    }
  }
  CHECK((shared() > 0) == (strcmp(argv[1], "apart") != 0));
  malloc_trim(0);
  hak_check();
  return 0;
}
