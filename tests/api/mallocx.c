/* Blocks may pass between jemalloc's extended functions and malloc's family, and keep their alignment and contents. */
#include "check.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern void *mallocx(size_t bytes, int flags), *rallocx(void *block, size_t bytes, int flags);
extern size_t xallocx(void *block, size_t bytes, size_t extra_bytes, int flags), sallocx(const void *block, int flags);
extern void dallocx(void *block, int flags), sdallocx(void *block, size_t bytes, int flags);
extern size_t nallocx(size_t bytes, int flags);

enum { ZERO = 64, ARENA_AND_CACHE = 3 << 20 | 5 << 8 /* nobody created the arena */ };

static bool is_all(const unsigned char *block, size_t bytes, unsigned char value) {
  for (size_t i = 0; i < bytes; i++) {
    if (block[i] != value) {
      return false;
    }
  }
  return true;
}

static void dirty(size_t bytes) {
  void *block = malloc(bytes);
  CHECK(block != NULL);
  memset(block, 0xa5, bytes);
  free(block);
}

static void one(size_t bytes, int lg_alignment) {
  int flags = lg_alignment | ARENA_AND_CACHE;
  uintptr_t mask = ((uintptr_t)1 << lg_alignment) - 1;
  dirty(bytes);
  unsigned char *block = mallocx(bytes, flags | ZERO);
  CHECK(block != NULL && ((uintptr_t)block & mask) == 0 && is_all(block, bytes, 0));
  CHECK(sallocx(block, flags) == malloc_usable_size(block) && sallocx(block, flags) >= bytes);
  CHECK(xallocx(block, bytes, 10, flags) == sallocx(block, flags));
  CHECK(nallocx(bytes, flags) >= bytes && sallocx(block, flags) >= nallocx(bytes, flags));
  memset(block, 7, bytes);
  size_t had = sallocx(block, flags);
  block = rallocx(block, 3 * had, flags | ZERO);
  CHECK(block != NULL && ((uintptr_t)block & mask) == 0 && is_all(block, bytes, 7) && is_all(block + had, 2 * had, 0));
  block = rallocx(block, bytes, flags);
  CHECK(block != NULL && ((uintptr_t)block & mask) == 0 && is_all(block, bytes, 7));
  sdallocx(block, bytes, flags);
  free(mallocx(bytes, flags));
  dallocx(malloc(bytes), flags);
  block = mallocx(bytes, flags);
  CHECK(block != NULL && (block = realloc(block, 2 * bytes)) != NULL);
  free(block);
}

int main(void) {
  for (size_t bytes = 1; bytes <= 5 << 20; bytes += bytes / 3 + 1) {
    for (int lg_alignment = 0; lg_alignment <= 17; lg_alignment += lg_alignment < 12 ? 4 : 5) {
      one(bytes, lg_alignment);
    }
  }
  volatile size_t huge = PTRDIFF_MAX;
  CHECK(mallocx(huge, 0) == NULL && mallocx(huge, 12 | ZERO) == NULL && nallocx(SIZE_MAX, 0) == 0);
  CHECK(nallocx(huge + 1, 12) == 0 && nallocx(0, 0) == 0);
  void *block = mallocx(100, 0);
  CHECK(block != NULL && rallocx(block, huge, 0) == NULL && rallocx(block, huge, 12) == NULL);
  dallocx(block, 0); /* it is still the caller's */
  return 0;
}
