/* From 1 KiB up, a block takes at most a quarter and a page more than requested, both of address space and, once it is
 * fully written, of memory. */
#include <malloc.h>
#include <string.h>

#include "trap.h"

enum { KIB = 1024, PAGE = 4 * KIB, FROM = KIB + 1, TO = 2 * KIB * KIB, DENSE_TO = 64 * KIB, STEP = 509 };

static size_t most_for(size_t bytes) {
  return bytes + bytes / 4 + PAGE;
}

static void every_size(void) {
  for (size_t bytes = FROM; bytes <= TO; bytes += bytes < DENSE_TO ? 1 : STEP) {
    void *block = hak_malloc(bytes);
    CHECK(block != NULL && hak_malloc_usable_size(block) >= bytes && hak_malloc_usable_size(block) <= most_for(bytes));
    hak_free(block);
  }
}

/* Although blocks may begin anywhere in a slice, each has the requested alignment. */
static void every_alignment(void) {
  for (size_t bytes = FROM; bytes <= DENSE_TO; bytes += STEP) {
    for (size_t alignment = 16; alignment <= DENSE_TO; alignment *= 2) {
      char *block = hak_aligned_alloc(alignment, bytes);
      CHECK(block != NULL && (uintptr_t)block % alignment == 0 && hak_malloc_usable_size(block) >= bytes);
      memset(block, 1, bytes);
      hak_free(block);
    }
  }
}

static void written(void *argument) {
  enum { BLOCKS = 400, APART = 2 * KIB };
  size_t bytes = *(size_t *)argument, before = trap_rss_kib();
  for (int i = 0; i < BLOCKS; i++) {
    char *block = hide_pointer(hak_malloc(bytes));
    CHECK(block != NULL);
    memset(block, 1, bytes);
  }
  CHECK((trap_rss_kib() - before) * KIB <= BLOCKS * most_for(bytes) + APART * KIB);
}

int main(void) {
  trap_watchdog(60);
  every_size();
  every_alignment();
  for (size_t bytes = 4 * KIB + 1; bytes <= DENSE_TO; bytes += 7 * KIB / 2) {
    TrapEnd end = trap_in_child(written, &bytes);
    fputs(end.text, stderr);
    CHECK(end.status == 0);
  }
  return 0;
}
