/* Calls every function of the interface once; exit status 0 where each does what it should. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      return 1; \
    } \
  } while (0)

int main(void) {
  for (size_t size = 1; size < (64u << 20); size = size * 3 / 2 + 1) {
    char *block = malloc(size);
    REQUIRE(block != NULL && malloc_usable_size(block) >= size);
    memset(block, 0x5a, size);
    block = realloc(block, 2 * size);
    REQUIRE(block != NULL && block[0] == 0x5a && block[size - 1] == 0x5a);
    free(block);

    char *zeroed = calloc(size, 1);
    REQUIRE(zeroed != NULL && zeroed[0] == 0 && zeroed[size / 2] == 0 && zeroed[size - 1] == 0);
    free(zeroed);
  }
  for (size_t alignment = sizeof(void *); alignment <= 4096; alignment *= 2) {
    void *block = NULL;
    REQUIRE(posix_memalign(&block, alignment, 100) == 0 && (uintptr_t)block % alignment == 0);
    free(block);
    block = aligned_alloc(alignment, 4 * alignment);
    REQUIRE(block != NULL && (uintptr_t)block % alignment == 0);
    free(block);
  }
  return 0;
}
