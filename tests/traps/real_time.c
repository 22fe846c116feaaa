/* The recipe of programs that must not wait for a page: mallopt(M_TRIM_THRESHOLD, -1), mlockall, and a warm-up that
 * frees what it allocated. In the cycles that follow, after pauses longer than the time of decay, hardly a page is
 * faulted in. malloc_trim still returns memory, and a later mallopt ends the state. argument: "locked" calls mlockall,
 * "threads" lets two threads do the work */
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum { BLOCKS = 4000, LARGE = 40, CYCLES = 30, PAUSE_US = 60000, LOCKED_MAX = 100, FAULTS_MAX = 300, KEPT_KIB = 4096 };

static long faults(void) {
  struct rusage used;
  CHECK(getrusage(RUSAGE_SELF, &used) == 0);
  return used.ru_minflt + used.ru_majflt;
}

/* Writes to all of the block, so that no page of it remains to be faulted in. */
static void *take(size_t bytes) {
  void *block = malloc(bytes);
  CHECK(block != NULL);
  return memset(block, 1, malloc_usable_size(block));
}

/* Blocks of 16 bytes to 8 KiB, and some of up to 2 MiB: at most `part` in 4 of their number. */
static void use(Prng *prng, size_t part) {
  void *blocks[BLOCKS + LARGE];
  size_t count = 0;
  for (size_t i = 0; i < BLOCKS * part / 4; i++) {
    size_t bytes = 16 + prng_below(prng, 1U << (4 + prng_below(prng, 10)));
    blocks[count++] = take(bytes);
  }
  for (size_t i = 0; i < LARGE * part / 4; i++) {
    size_t bytes = 10000 + prng_below(prng, 1U << (14 + prng_below(prng, 8)));
    blocks[count++] = take(bytes);
  }
  while (count > 0) {
    free(blocks[--count]);
  }
}

static void *cycle(void *seed) {
  Prng prng = prng_seeded((uintptr_t)seed);
  use(&prng, 1);
  return NULL;
}

static void warm_up(void) {
  Prng prng = prng_seeded(1);
  for (int round = 0; round < 4; round++) {
    use(&prng, 4);
  }
}

static long faults_of_cycles(void) {
  long before = faults();
  for (uintptr_t i = 0; i < CYCLES; i++) {
    cycle((void *)(i + 2));
    usleep(PAUSE_US);
  }
  return faults() - before;
}

/* Without mlockall the cycles also belong to the warm-up: a large block may lie where only parts were written. */
static void *warm_up_all(void *none) {
  warm_up();
  faults_of_cycles();
  return none;
}

int main(int count, char **arguments) {
  trap_watchdog(60);
  CHECK(mallopt(M_TRIM_THRESHOLD, -1) == 1 && mallopt(M_MMAP_MAX, 0) == 1);
  bool locked = count > 1 && strcmp(arguments[1], "locked") == 0;
  if (locked && mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
    trap_skip("memory cannot be locked");
  }
  if (count > 1 && strcmp(arguments[1], "threads") == 0) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, warm_up_all, NULL) == 0);
    CHECK(pthread_join(other, NULL) == 0);
  }
  locked ? warm_up() : (void)warm_up_all(NULL);
  long took = faults_of_cycles();
  printf("%ld faults\n", took);
  CHECK(took <= (locked ? LOCKED_MAX : FAULTS_MAX));
  if (locked) {
    return 0;
  }
  size_t before = trap_rss_kib();
  CHECK(malloc_trim(0) == 1);
  CHECK(trap_rss_kib() + KEPT_KIB < before);
  warm_up();
  CHECK(mallopt(M_TRIM_THRESHOLD, 128 << 10) == 1);
  took = faults_of_cycles();
  CHECK(took > FAULTS_MAX);
  return 0;
}
