/* Most of a heap is freed, in any order. The free memory between the remaining blocks goes back to the system
 * meanwhile, with few calls. */
#include <string.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum { MIB = 1 << 20, HEAP_BYTES = 100 * MIB, LOW = 16, HIGH = 1024, BLOCKS_MAX = 260000 };

static char *blocks[BLOCKS_MAX];
static size_t count;

static char *filled(size_t bytes) {
  char *block = hak_malloc(bytes);
  CHECK(block != NULL);
  memset(block, 1, bytes);
  return block;
}

static void shuffle(Prng *prng) {
  for (size_t i = count - 1; i > 0; i--) {
    size_t j = prng_below(prng, (uint32_t)i + 1);
    char *block = blocks[i];
    blocks[i] = blocks[j];
    blocks[j] = block;
  }
}

/* Frees 98 % of 100 MiB of small blocks, in any order. */
static void any_order(void *unused) {
  (void)unused;
  enum { LEFT = 50, LEFT_MIB_MAX = 40 };
  Prng prng = prng_seeded(1);
  size_t before = trap_rss_kib();
  for (size_t bytes, total = 0; total < HEAP_BYTES; total += bytes) {
    bytes = LOW + prng_below(&prng, HIGH - LOW + 1);
    CHECK(count < BLOCKS_MAX);
    blocks[count++] = filled(bytes);
  }
  shuffle(&prng);
  for (size_t i = count / LEFT; i < count; i++) {
    hak_free(blocks[i]);
  }
  size_t left = trap_rss_kib() - before;
  fprintf(stderr, "98 %% of %d MiB freed in any order: %zu MiB are resident\n", HEAP_BYTES / MIB, left >> 10);
  CHECK(left <= (size_t)LEFT_MIB_MAX << 10);
}

/* Frees half of each 64 KiB, then, in the opposite order, the rest except one block. */
static void there_and_back(void *unused) {
  (void)unused;
  enum { BYTES = 4096, GROUP = 16, GROUPS = HEAP_BYTES / BYTES / GROUP };
  size_t before = trap_rss_kib(), full, left;
  uint64_t calls;
  for (count = 0; count < (size_t)GROUPS * GROUP; count++) {
    blocks[count] = filled(BYTES);
  }
  full = trap_rss_kib() - before;
  calls = trap_os_calls();
  for (size_t i = 0; i < count; i++) {
    if (i % GROUP >= GROUP / 2) {
      hak_free(blocks[i]);
    }
  }
  for (size_t i = count; i-- > 0;) {
    if (i % GROUP > 0 && i % GROUP < GROUP / 2) {
      hak_free(blocks[i]);
    }
  }
  calls = trap_os_calls() - calls;
  left = trap_rss_kib() - before;
  fprintf(stderr, "a block of each 64 KiB is left: %zu of %zu KiB, %llu system calls\n", left, full,
          (unsigned long long)calls);
  CHECK(left <= full / 4);
  CHECK(calls <= 3 * GROUPS);
}

static void run(void (*act)(void *unused)) {
  TrapEnd end = trap_in_child(act, NULL);
  fputs(end.text, stdout);
  CHECK(end.status == 0);
}

int main(void) {
  if (sysconf(_SC_PAGESIZE) != 4096) {
    trap_skip("the numbers are for pages of 4 KiB");
  }
  run(any_order);
  run(there_and_back);
  return 0;
}
