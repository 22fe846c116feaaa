/* A program that uses almost only huge blocks becomes small within a few windows of activity after it freed them.
 * argument: end, if blocks were replaced one by one before; or burst, if all were freed and allocated again */
#include <string.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum { SLOTS = 10, STEPS = 1500, KEPT_MAX_KIB = 24 << 10, IDLE_ROUNDS = 150, IDLE_US = 20000 };
#define MIB ((size_t)1 << 20)

static char *blocks[SLOTS];

static void replace(Prng *prng, size_t i) {
  size_t bytes = MIB + prng_below(prng, 15 << 20);
  hak_free(blocks[i]);
  blocks[i] = hak_malloc(bytes);
  CHECK(blocks[i] != NULL);
  memset(blocks[i], 1, bytes / 4);
}

static void free_all(void) {
  for (size_t i = 0; i < SLOTS; i++) {
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
}

int main(int count, char **arguments) {
  Prng prng = prng_seeded(3);
  CHECK(count == 2);
  trap_watchdog(60);
  bool burst = strcmp(arguments[1], "burst") == 0;
  size_t before = trap_rss_kib();
  for (size_t i = 0; i < STEPS; i++) {
    if (burst && i % SLOTS == 0) {
      free_all();
    }
    replace(&prng, burst ? i % SLOTS : prng_below(&prng, SLOTS));
  }
  size_t live = trap_rss_kib();
  free_all();
  for (size_t i = 0; i < IDLE_ROUNDS; i++) {
    usleep(IDLE_US);
    char *volatile block = hak_malloc(2 * MIB);
    CHECK(block != NULL);
    block[0] = 1;
    hak_free(block);
  }
  printf("%zu KiB before, %zu in use, %zu after\n", before, live, trap_rss_kib());
  CHECK(trap_rss_kib() <= before + KEPT_MAX_KIB);
  return 0;
}
