/* Huge pages are declined for the first 32 MiB, also where these are a part of one block. */
#include <string.h>

#include "trap.h"

enum { DECLINED_MAX_KIB = 34 << 10, DECLINED_LEAST_KIB = 30 << 10 };
#define BYTES ((size_t)256 << 20)

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

int main(void) {
  trap_watchdog(60);
  char *block = hak_malloc(BYTES);
  CHECK(block != NULL);
  search.from = (uintptr_t)block;
  search.to = search.from + BYTES;
  trap_each_line("/proc/self/smaps", look_at_line, NULL);
  printf("%zu KiB without huge pages\n", search.declined_kib);
  CHECK(search.declined_kib <= DECLINED_MAX_KIB && search.declined_kib >= DECLINED_LEAST_KIB);
  hak_free(block);
  return 0;
}
