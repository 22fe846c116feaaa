/* Huge blocks of any size are allocated, written and freed at random. After a warm-up, their pages are reused, with
 * little more memory than the peak use. */
#include <sys/resource.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum { SLOTS = 20, WARM = 200, STEPS = 300, FAULTS_PERCENT = 2, EXCESS_PERCENT = 15 };
#define MIB ((size_t)1 << 20)

static struct {
  char *block;
  size_t bytes;
} slots[SLOTS];
static size_t live, peak, written;

static void replace(Prng *prng, size_t page) {
  size_t i = prng_below(prng, SLOTS), bytes = 5 * MIB + prng_below(prng, 15 << 20);
  hak_free(slots[i].block);
  slots[i].block = hak_malloc(bytes);
  CHECK(slots[i].block != NULL);
  live += bytes - slots[i].bytes;
  slots[i].bytes = bytes;
  peak = live > peak ? live : peak;
  for (size_t at = 0; at < bytes; at += page, written++) {
    slots[i].block[at] = 1;
  }
}

static struct rusage usage(void) {
  struct rusage now;
  CHECK(getrusage(RUSAGE_SELF, &now) == 0);
  return now;
}

int main(void) {
  Prng prng = prng_seeded(5);
  size_t page = (size_t)sysconf(_SC_PAGESIZE), before = trap_rss_kib();
  trap_watchdog(60);
  for (size_t i = 0; i < WARM; i++) {
    replace(&prng, page);
  }
  long faults = usage().ru_minflt;
  written = 0;
  for (size_t i = 0; i < STEPS; i++) {
    replace(&prng, page);
  }
  faults = usage().ru_minflt - faults;
  size_t most = (size_t)usage().ru_maxrss - before;
  printf("%ld faults for %zu pages, %zu KiB resident at most for %zu\n", faults, written, most, peak >> 10);
  CHECK((size_t)faults <= written * FAULTS_PERCENT / 100);
  CHECK(most <= (peak >> 10) * (100 + EXCESS_PERCENT) / 100);
  return 0;
}
