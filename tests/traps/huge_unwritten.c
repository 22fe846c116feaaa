/* The program writes little of its large blocks, of which some are live at any time. The resident memory stays near the
 * written bytes, however often the memory is reused. Without a bound, 400 MB would become resident page by page. */
#include "prng.h"
#include "trap.h"

enum { LIVE = 100, ROUNDS = 80000, LEAST = 512 << 10, MORE = 60 << 20, RSS_MAX_KIB = 250 << 10 };

int main(void) {
  char *blocks[LIVE] = {NULL};
  Prng prng = prng_seeded(1);
  trap_watchdog(60);
  for (int i = 0; i < ROUNDS; i++) {
    char **block = &blocks[prng_below(&prng, LIVE)];
    hak_free(*block);
    size_t bytes = LEAST + prng_below(&prng, MORE);
    *block = hak_malloc(bytes);
    CHECK(*block != NULL);
    (*block)[0] = (*block)[bytes - 1] = 1;
  }
  printf("%zu KiB\n", trap_rss_kib());
  CHECK(trap_rss_kib() <= RSS_MAX_KIB);
  return 0;
}
