/* Where the system makes huge pages by itself (transparent_hugepage/enabled is "always"), the library declines them for
 * the first 32 MiB, and asks for nothing elsewhere. It never declines them for a part of a larger block, since realloc
 * could then only copy the block. */
#include <string.h>
#include <sys/resource.h>

#include "trap.h"

enum { SMALL_BYTES = 16 << 20, PAGE_BYTES = 4096 };
#define BYTES ((size_t)256 << 20)
#define MORE_BYTES ((size_t)300 << 20)

static struct {
  uintptr_t from, to;
  size_t part_kib, declined_kib;
} search;

static void look_at_line(const char *line, void *unused) {
  (void)unused;
  unsigned long begin, end;
  if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
    begin = begin > search.from ? begin : search.from;
    end = end < search.to ? end : search.to;
    search.part_kib = begin < end ? (end - begin) >> 10 : 0;
  } else if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " nh")) {
    search.declined_kib += search.part_kib;
  }
}

static void look_for_always(const char *line, void *always) {
  *(bool *)always |= strstr(line, "[always]") != NULL;
}

static bool is_always(void) {
  bool always = false;
  trap_each_line("/sys/kernel/mm/transparent_hugepage/enabled", look_for_always, &always);
  return always;
}

static size_t peak_kib(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return (size_t)usage.ru_maxrss;
}

static size_t declined_kib(const char *block, size_t bytes) {
  search.from = (uintptr_t)block;
  search.to = search.from + bytes;
  search.declined_kib = 0;
  trap_each_line("/proc/self/smaps", look_at_line, NULL);
  return search.declined_kib;
}

int main(void) {
  trap_watchdog(60);
  char *small = hak_malloc(SMALL_BYTES), *large = hak_malloc(BYTES);
  CHECK(small != NULL && large != NULL);
  printf("%zu and %zu KiB without huge pages\n", declined_kib(small, SMALL_BYTES), declined_kib(large, BYTES));
  CHECK(declined_kib(small, SMALL_BYTES) == (is_always() ? SMALL_BYTES >> 10 : 0));
  CHECK(declined_kib(large, BYTES) == 0);
  for (size_t at = 0; at < BYTES; at += PAGE_BYTES) {
    memcpy(large + at, &at, sizeof at);
  }
  size_t before_kib = peak_kib();
  CHECK((large = hak_realloc(large, MORE_BYTES)) != NULL);
  printf("peak RSS %zu and %zu KiB\n", before_kib, peak_kib());
  CHECK(peak_kib() < before_kib + (BYTES >> 14));
  for (size_t at = 0; at < BYTES; at += PAGE_BYTES) {
    CHECK(memcmp(large + at, &at, sizeof at) == 0);
  }
  hak_free(large);
  hak_free(small);
  return 0;
}
