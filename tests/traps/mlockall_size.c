/* Under mlockall(MCL_FUTURE), which makes mapped memory resident, a program is hardly larger than its blocks, and
 * becomes small again when it frees them. It locks memory at its start, or after a while. */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "prng.h"
#include "trap.h"

enum { BLOCKS = 60, CHURN = 1500, KEPT_MAX_KIB = 24 << 10, BESIDE_KIB = 12 << 10, GROWN_KIB = 64 << 10 };

#define SPACE_BYTES ((size_t)1 << 30) /* far more than the program needs */

static char *blocks[BLOCKS];

static size_t fill(size_t bytes) {
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, bytes);
  }
  return BLOCKS * bytes >> 10;
}

static void clear(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void measure(size_t bytes, size_t before) {
  size_t live = fill(bytes), now = trap_rss_kib();
  printf("%zu KiB of blocks, %zu resident, %zu before\n", live, now, before);
  CHECK(now <= before + live + live * 3 / 10 + BESIDE_KIB);
  clear();
  CHECK(trap_rss_kib() <= before + KEPT_MAX_KIB);
}

static size_t peak_kib(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return (size_t)usage.ru_maxrss;
}

/* A block that realloc grows is mapped only once, instead of again and again until memory is exhausted. */
static void grow(void) {
  size_t before = peak_kib();
  for (size_t i = 0; i < 8; i++) {
    char *block = hak_malloc(1500000 + i * 1000000);
    CHECK(block != NULL);
    block[0] = 1;
    char *grown = hak_realloc(block, 6000000 + i * 1000000);
    CHECK(grown != NULL && grown[0] == 1);
    hak_free(grown);
  }
  CHECK(peak_kib() <= before + GROWN_KIB);
}

int main(int count, char **arguments) {
  Prng prng = prng_seeded(5);
  (void)arguments;
  trap_watchdog(60);
  if (count > 1) {
    fill(300 << 10);
    clear();
  }
  struct rlimit most, space = {SPACE_BYTES, SPACE_BYTES};
  CHECK(setrlimit(RLIMIT_AS, &space) == 0);
  CHECK(getrlimit(RLIMIT_MEMLOCK, &most) == 0);
  hak_free(hak_malloc(100));
  if (mlockall(MCL_FUTURE) != 0 || !(blocks[0] = hak_malloc((size_t)200 << 20))) {
    trap_skip("so much may not be locked");
  }
  clear();
  grow();
  HAK(hak_trim)(0);
  size_t before = trap_rss_kib();
  measure(1100000, before);
  measure(2300000, before);
  measure(90000, before);
  measure(5000, before);
  for (size_t i = 0; i < CHURN; i++) {
    size_t k = prng_below(&prng, BLOCKS), bytes = 100000 + prng_below(&prng, 2000000);
    hak_free(blocks[k]);
    blocks[k] = hak_malloc(bytes);
    CHECK(blocks[k] != NULL);
    blocks[k][0] = blocks[k][bytes - 1] = 1;
  }
  clear();
  size_t now = trap_rss_kib(); /* of blocks up to 1 MiB, the thread keeps half of the memory that it had in use */
  printf("%zu resident, %zu before\n", now, before);
  CHECK(now <= before + KEPT_MAX_KIB + ((size_t)BLOCKS * 550));
  return 0;
}
