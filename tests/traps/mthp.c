/* Where the system offers pages of 64 KiB on request (hugepages-64kB/enabled), a program with many blocks has only a
 * fraction of the page faults, and not much more resident memory. It has no pages of 2 MiB, nor has its forked child.
 * */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "trap.h"

#define SETTINGS "/sys/kernel/mm/transparent_hugepage/"
enum { BLOCKS = 1 << 17, BLOCK_BYTES = 512 };

static bool setting_is(const char *path, const char *value) {
  char text[128] = "";
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
  close(file);
  return length > 0 && strstr(text, value) != NULL;
}

static bool is_offered(void) {
  static const char medium[] = SETTINGS "hugepages-64kB/enabled";
  return setting_is(medium, "[madvise]") ||
         (setting_is(medium, "[inherit]") && setting_is(SETTINGS "enabled", "[madvise]"));
}

static void add_huge(const char *line, void *argument) {
  size_t *kib = argument;
  if (strncmp(line, "AnonHugePages:", 14) == 0) {
    *kib += strtoul(line + 14, NULL, 10);
  }
}

static long faults(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

static void fill(void *unused) {
  (void)unused;
  long small_page_faults = (long)((size_t)BLOCKS * BLOCK_BYTES / (size_t)sysconf(_SC_PAGESIZE)), before = faults();
  size_t rss = trap_rss_kib(), huge_kib = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    char *block = hak_malloc(BLOCK_BYTES);
    CHECK(block != NULL);
    memset(block, 1, BLOCK_BYTES);
  }
  CHECK(faults() - before < small_page_faults / 3);
  CHECK(trap_rss_kib() - rss < (size_t)BLOCKS * BLOCK_BYTES / 1024 * 11 / 10);
  trap_each_line("/proc/self/smaps", add_huge, &huge_kib);
  CHECK(huge_kib == 0);
}

int main(void) {
  if (!is_offered()) {
    trap_skip("the system offers no pages of 64 KiB");
  }
  fill(NULL);
  CHECK(trap_in_child(fill, NULL).status == 0);
  return 0;
}
