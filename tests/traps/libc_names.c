/* glibc's own names for malloc and its family (__libc_malloc, cfree) can be mixed with the standard names: each
 * function accepts the blocks of all. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trap.h"

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void *__libc_valloc(size_t bytes);
void *__libc_pvalloc(size_t bytes);
void __libc_free(void *block);

static void *by_calloc(size_t bytes) {
  return __libc_calloc(1, bytes);
}
static void *by_realloc(size_t bytes) {
  return __libc_realloc(NULL, bytes);
}
static void *by_memalign(size_t bytes) {
  return __libc_memalign(256, bytes);
}
static void end_by_realloc(void *block) {
  CHECK(__libc_realloc(block, 0) == NULL);
}
static void move_and_free(void *block) {
  char first = *(char *)block;
  char *moved = __libc_realloc(block, 300000);
  CHECK(moved != NULL && *moved == first);
  moved = realloc(moved, 900000);
  CHECK(moved != NULL && *moved == first);
  free(moved);
}

/* Frees a block as a program does that was linked before glibc 2.26. */
static void end_by_cfree(void *block) {
#if defined(__x86_64__) && defined(TRAP_PRELOADED)
  __asm__(".symver old_cfree,cfree@GLIBC_2.2.5");
  void old_cfree(void *old_block);
  old_cfree(block);
#else
  free(block);
#endif
}

int main(void) {
  static void *(*const make[])(size_t) = {malloc,      __libc_malloc, by_calloc,      by_realloc,
                                          by_memalign, __libc_valloc, __libc_pvalloc, valloc};
  static void (*const end[])(void *) = {free, __libc_free, end_by_cfree, end_by_realloc, move_and_free};
  static const size_t sizes[] = {1, 100, 5000, 40000, 131072, 200000, 1 << 20, 5 << 20};
  trap_watchdog(60);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    for (size_t m = 0; m < sizeof make / sizeof *make; m++) {
      for (size_t e = 0; e < sizeof end / sizeof *end; e++) {
        char *block = make[m](sizes[s]);
        CHECK(block != NULL && malloc_usable_size(block) >= sizes[s]);
        memset(block, (int)m, sizes[s]);
        end[e](block);
      }
    }
  }
  return 0;
}
