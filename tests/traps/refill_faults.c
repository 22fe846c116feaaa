/* A program repeatedly allocates blocks and frees them all, in any order. After two rounds, no page is faulted in
 * again, whatever the sizes. */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum { BLOCKS_MAX = 4000, WARM = 5, ROUNDS = 10, FAULTS_PERCENT = 20 };

static char *blocks[BLOCKS_MAX];

static void fill_and_free(Prng *prng, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, bytes);
  }
  for (size_t left = count; left > 0; left--) {
    size_t i = prng_below(prng, (uint32_t)left);
    hak_free(blocks[i]);
    blocks[i] = blocks[left - 1];
  }
}

static size_t faults(void) {
  struct rusage now;
  CHECK(getrusage(RUSAGE_SELF, &now) == 0);
  return (size_t)now.ru_minflt;
}

static void is_faulted_in_once(size_t count, size_t bytes) {
  Prng prng = prng_seeded(3);
  size_t before = 0, pages = ROUNDS * (count * bytes / (size_t)sysconf(_SC_PAGESIZE));
  for (int i = 0; i < WARM + ROUNDS; i++) {
    before = i == WARM ? faults() : before;
    fill_and_free(&prng, count, bytes);
  }
  size_t again = faults() - before;
  printf("%zu blocks of %zu bytes: %zu faults for %zu pages\n", count, bytes, again, pages);
  CHECK(again <= pages * FAULTS_PERCENT / 100);
}

int main(void) {
  trap_watchdog(60);
  is_faulted_in_once(BLOCKS_MAX, 8191);
  is_faulted_in_once(2000, 16000);
  is_faulted_in_once(200, 300000);
  is_faulted_in_once(8, (1 << 20) + 1);
  is_faulted_in_once(8, 3 << 19);
  is_faulted_in_once(40, 3000000);
  is_faulted_in_once(4, 10000000);
  return 0;
}
