/* Threads that wait for work keep little of the memory that they had. The memory in one cache does not enlarge the
 * allowance of another. */
#include <malloc.h>
#include <pthread.h>
#include <string.h>

#include "prng.h"
#include "trap.h"

enum { THREADS = 32, BYTES = 8 << 20, SIZES = 2000, ROUNDS = 3, BLOCKS_MAX = BYTES / 16, MOST_KIB_EACH = 2048 };
enum { FREEING = 8, TOGETHER = 256 << 20, MOST_KIB_TOGETHER = 52 << 10 };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_done, at_end;

/* Returns the number of blocks. */
static size_t fill(Prng *prng, char **blocks, size_t all_bytes, size_t sizes) {
  size_t count = 0;
  for (size_t bytes = 0; bytes < all_bytes; count++) {
    size_t size = 16 + prng_below(prng, (uint32_t)sizes);
    blocks[count] = hak_malloc(size);
    CHECK(blocks[count] != NULL);
    memset(blocks[count], 1, size);
    bytes += size;
  }
  return count;
}

static void empty(Prng *prng, char **blocks, size_t count) {
  for (; count > 0; count--) {
    size_t i = prng_below(prng, (uint32_t)count);
    hak_free(blocks[i]);
    blocks[i] = blocks[count - 1];
  }
}

/* The threads work one after the other, as in a pool with little to do. */
static void *work_in_turn(void *seed) {
  static char *blocks[BLOCKS_MAX];
  Prng prng = prng_seeded((uintptr_t)seed);
  pthread_mutex_lock(&turn);
  for (int round = 0; round < ROUNDS; round++) {
    empty(&prng, blocks, fill(&prng, blocks, BYTES, SIZES));
  }
  pthread_mutex_unlock(&turn);
  pthread_barrier_wait(&all_done);
  pthread_barrier_wait(&at_end);
  return NULL;
}

/* All threads free at the same time, each its own blocks. */
static void *free_together(void *seed) {
  static char *blocks[FREEING][TOGETHER / FREEING / 16];
  char **mine = blocks[(uintptr_t)seed];
  Prng prng = prng_seeded((uintptr_t)seed);
  size_t count = fill(&prng, mine, TOGETHER / FREEING, SIZES);
  pthread_barrier_wait(&all_done);
  pthread_barrier_wait(&all_done);
  empty(&prng, mine, count);
  pthread_barrier_wait(&all_done);
  pthread_barrier_wait(&at_end);
  return NULL;
}

static size_t kept_kib(void *(*body)(void *), size_t threads, int barriers) {
  pthread_t ids[THREADS];
  size_t before = trap_rss_kib();
  pthread_barrier_init(&all_done, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&at_end, NULL, (unsigned)threads + 1);
  for (size_t i = 0; i < threads; i++) {
    CHECK(pthread_create(&ids[i], NULL, body, (void *)i) == 0); /* NOLINT(performance-no-int-to-ptr) */
  }
  for (int i = 0; i < barriers; i++) {
    pthread_barrier_wait(&all_done);
  }
  size_t after = trap_rss_kib();
  pthread_barrier_wait(&at_end);
  for (size_t i = 0; i < threads; i++) {
    pthread_join(ids[i], NULL);
  }
  return after > before ? after - before : 0;
}

int main(void) {
  trap_watchdog(120);
  size_t each = kept_kib(work_in_turn, THREADS, 1) / THREADS, together = kept_kib(free_together, FREEING, 3);
  printf("in turn: %zu KiB each; together: %zu KiB\n", each, together);
  CHECK(each <= MOST_KIB_EACH && together <= MOST_KIB_TOGETHER);
  return 0;
}
