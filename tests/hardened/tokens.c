/* Makes by hand the calls that clang makes with -fsanitize=alloc-token. Every function of both forms must allocate. The
 * hardened profile keeps blocks of types without pointers away from the others; the default profile does not. */
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { BYTES = 48, BLOCKS = 200 };

#define STANDARD(type, name, ...) \
  extern type __alloc_token_##name(__VA_ARGS__, size_t token); \
  extern type __alloc_token_0_##name(__VA_ARGS__); \
  extern type __alloc_token_1_##name(__VA_ARGS__);
STANDARD(void *, malloc, size_t bytes)
STANDARD(void *, calloc, size_t number, size_t bytes)
STANDARD(void *, realloc, void *block, size_t bytes)
STANDARD(void *, reallocarray, void *block, size_t number, size_t bytes)
STANDARD(void *, aligned_alloc, size_t alignment, size_t bytes)
STANDARD(void *, memalign, size_t alignment, size_t bytes)
STANDARD(int, posix_memalign, void **block, size_t alignment, size_t bytes)
STANDARD(void *, valloc, size_t bytes)
STANDARD(void *, pvalloc, size_t bytes)
STANDARD(void *, _Znwm, size_t bytes)
STANDARD(void *, _Znam, size_t bytes)
STANDARD(void *, _ZnwmSt11align_val_t, size_t bytes, size_t alignment)
STANDARD(void *, _ZnamSt11align_val_t, size_t bytes, size_t alignment)
STANDARD(void *, _ZnwmRKSt9nothrow_t, size_t bytes, const void *nothrow)
STANDARD(void *, _ZnamRKSt9nothrow_t, size_t bytes, const void *nothrow)
STANDARD(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t bytes, size_t alignment, const void *nothrow)
STANDARD(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t bytes, size_t alignment, const void *nothrow)

static const size_t with_pointers = SIZE_MAX, data = 5;
static uintptr_t slabs[2][64 * BLOCKS]; /* units of 64 KiB that held blocks of each kind, by number */
static int count[2];

static void note(void *block, int kind) {
  CHECK(block != NULL && malloc_usable_size(block) >= BYTES);
  memset(block, 0x5a, BYTES);
  slabs[kind][count[kind]++] = (uintptr_t)block >> 16;
}

#define ALL(name, ...) \
  do { \
    void *some[] = {__alloc_token_##name(__VA_ARGS__, data), __alloc_token_##name(__VA_ARGS__, with_pointers), \
                    __alloc_token_0_##name(__VA_ARGS__), __alloc_token_1_##name(__VA_ARGS__)}; \
    for (int i = 0; i < 4; i++) { \
      note(some[i], i % 2); \
      free(some[i]); \
    } \
  } while (0)

static void allocate_by_all(void) {
  ALL(malloc, BYTES);
  ALL(calloc, 1, BYTES);
  ALL(realloc, NULL, BYTES);
  ALL(reallocarray, NULL, 1, BYTES);
  ALL(aligned_alloc, 16, BYTES);
  ALL(memalign, 16, BYTES);
  ALL(_Znwm, BYTES);
  ALL(_Znam, BYTES);
  ALL(_ZnwmSt11align_val_t, BYTES, 16);
  ALL(_ZnamSt11align_val_t, BYTES, 16);
  ALL(_ZnwmRKSt9nothrow_t, BYTES, NULL);
  ALL(_ZnamRKSt9nothrow_t, BYTES, NULL);
  ALL(_ZnwmSt11align_val_tRKSt9nothrow_t, BYTES, 16, NULL);
  ALL(_ZnamSt11align_val_tRKSt9nothrow_t, BYTES, 16, NULL);
}

static void allocate_pages(void) {
  void *block = NULL, *blocks[] = {__alloc_token_valloc(BYTES, data), __alloc_token_1_pvalloc(BYTES)};
  CHECK(__alloc_token_posix_memalign(&block, 64, BYTES, data) == 0 && (uintptr_t)block % 64 == 0);
  free(block);
  CHECK(blocks[0] && blocks[1] && (uintptr_t)blocks[0] % 4096 == 0 && (uintptr_t)blocks[1] % 4096 == 0);
  free(blocks[0]);
  free(blocks[1]);
}

static void without_a_token(void) {
  void *block = malloc(BYTES);
  note(block, 1);
  free(block);
}

/* realloc without a token moves a block without leaving its kind. */
static void grow_without_a_token(void) {
  char *block = realloc(__alloc_token_malloc(BYTES, data), 40 * BYTES);
  note(block, 0);
  free(block);
  note(block = malloc(40 * BYTES), 1);
  free(block);
}

/* The same for large blocks, whose kind shows in no slab. */
static void resize_large_without_a_token(size_t from, size_t to) {
  char *block = realloc(__alloc_token_malloc(from, data), to);
  note(block, 0);
  free(block);
  note(block = malloc(to), 1);
  free(block);
}

static int shared(void) {
  int pairs = 0;
  for (int i = 0; i < count[0]; i++) {
    for (int j = 0; j < count[1]; j++) {
      pairs += slabs[0][i] == slabs[1][j];
    }
  }
  return pairs;
}

int main(int arguments, char **argument) {
  bool apart = arguments > 1 && strcmp(argument[1], "apart") == 0;
  for (int i = 0; i < BLOCKS; i++) {
    allocate_by_all();
    without_a_token();
    grow_without_a_token();
    resize_large_without_a_token(100000, 200000);
    resize_large_without_a_token(600000, 60000);
  }
  allocate_pages();
  CHECK((shared() == 0) == apart);
  return 0;
}
