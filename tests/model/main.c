/* A random walk through all functions in several threads, compared with a model.
 *
 * usage: model THREADS OPERATIONS [SEED]
 *
 * The walk is cut into rounds. Between rounds all threads rest at a barrier while one verifies everything and calls
 * hak_check(); every ROUNDS_PER_LIFE rounds the threads end and new ones inherit their slots. */
#include <errno.h>

#include "check.h"
#include "names.h"
#include "walk.h"

enum { THREADS_MAX = 64, LIVES = 4, ROUNDS_PER_LIFE = 8 };

static Walker *walkers[THREADS_MAX];
static size_t threads;
static uint64_t steps_per_round;
static pthread_barrier_t rest;

static void verify_everything(void) {
  walk_verify_all(walkers, threads);
  hak_check();
}

static void *live(void *argument) {
  Walker *walker = argument;
  for (int round = 0; round < ROUNDS_PER_LIFE; round++) {
    walk_steps(walker, steps_per_round);
    if (pthread_barrier_wait(&rest) != 0) { /* in one of the threads */
      verify_everything();
    }
    pthread_barrier_wait(&rest);
  }
  return NULL;
}

static uint64_t parse_number(const char *text, const char *what, uint64_t largest) {
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || number > largest) {
    fprintf(stderr, "model: %s is '%s', not a number up to %llu\n", what, text, (unsigned long long)largest);
    exit(2);
  }
  return number;
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 4) {
    fprintf(stderr, "usage: model THREADS OPERATIONS [SEED]\n");
    return 2;
  }
  threads = parse_number(argv[1], "THREADS", THREADS_MAX);
  uint64_t operations = parse_number(argv[2], "OPERATIONS", UINT64_C(1) << 40);
  uint64_t seed = argc == 4 ? parse_number(argv[3], "SEED", UINT64_MAX) : 1;
  CHECK(threads > 0);
  uint64_t rounds = threads * LIVES * ROUNDS_PER_LIFE;
  steps_per_round = (operations + rounds - 1) / rounds;

  walk_exchange_init();
  CHECK(pthread_barrier_init(&rest, NULL, (unsigned)threads) == 0);
  for (size_t i = 0; i < threads; i++) {
    walkers[i] = malloc(sizeof *walkers[i]);
    CHECK(walkers[i] != NULL);
    walk_init(walkers[i], seed * THREADS_MAX + i);
  }
  for (int life = 0; life < LIVES; life++) {
    pthread_t ids[THREADS_MAX];
    for (size_t i = 0; i < threads; i++) {
      CHECK(pthread_create(&ids[i], NULL, live, walkers[i]) == 0);
    }
    for (size_t i = 0; i < threads; i++) {
      CHECK(pthread_join(ids[i], NULL) == 0);
    }
    verify_everything();
  }

  uint64_t done = 0;
  for (size_t i = 0; i < threads; i++) {
    done += walkers[i]->steps;
    walk_release(walkers[i]);
    free(walkers[i]);
  }
  walk_exchange_release();
  hak_thread_flush();
  (void)hak_trim(0);
  hak_check();
  CHECK(done >= operations);
  printf("%llu operations, %zu threads, seed %llu\n", (unsigned long long)done, threads, (unsigned long long)seed);
  return 0;
}
