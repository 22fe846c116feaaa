/* Threads that each do half of the work: one only allocates, and then never runs again; another only frees.
 * Every round uses as much memory as the one before, so the process must not grow.
 * argument: "parked" (the threads that allocated stay alive, idle) or "ended" */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "churn.h"

enum {
  BLOCKS = 8192,
  MAX_BYTES = 2048, /* so a round holds about 8 MiB */
  ROUNDS = 40,
  WARM_ROUNDS = 5,
  /* A thread that stays alive keeps what its cache holds, but not the 8 MiB that others freed for it. */
  GROWTH_PARKED_KIB = 64 * 1024,
  GROWTH_ENDED_KIB = 12 * 1024,
};

static struct churn_block blocks[BLOCKS];
static pthread_barrier_t handover;                          /* the allocating thread and main */
static pthread_mutex_t parking = PTHREAD_MUTEX_INITIALIZER; /* held by main until the end */

static void *allocate_and_park(void *argument) {
  uint64_t random = (uint64_t)(uintptr_t)argument * 0x9E3779B97F4A7C15u + 1;
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i].bytes = 1 + check_random(&random) % MAX_BYTES;
    blocks[i].start = malloc(blocks[i].bytes);
    CHECK(blocks[i].start != NULL);
    churn_block_fill(blocks[i]);
  }
  pthread_barrier_wait(&handover);
  pthread_mutex_lock(&parking);
  pthread_mutex_unlock(&parking);
  return NULL;
}

static void *free_only(void *argument) {
  (void)argument;
  for (size_t i = 0; i < BLOCKS; i++) {
    churn_block_verify(blocks[i]);
    free(blocks[i].start);
  }
  return NULL;
}

static void free_in_a_thread(void) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, free_only, NULL) == 0);
  CHECK(pthread_join(id, NULL) == 0);
}

int main(int count, char **arguments) {
  pthread_t ids[ROUNDS];
  size_t warm_kib = 0;
  CHECK(count == 2);
  check_served();
  bool parked = strcmp(arguments[1], "parked") == 0;
  CHECK(parked || strcmp(arguments[1], "ended") == 0);
  CHECK(pthread_barrier_init(&handover, NULL, 2) == 0);
  if (parked)
    pthread_mutex_lock(&parking);
  for (uintptr_t round = 0; round < ROUNDS; round++) {
    CHECK(pthread_create(&ids[round], NULL, allocate_and_park, (void *)(round + 1)) == 0);
    pthread_barrier_wait(&handover);
    if (!parked)
      CHECK(pthread_join(ids[round], NULL) == 0);
    /* A new thread and the main one free in turn. The main thread never allocates. */
    if (round % 2 == 0) {
      free_in_a_thread();
    } else {
      free_only(NULL);
    }
    if (round == WARM_ROUNDS)
      warm_kib = check_rss_kib();
  }
  check_growth(warm_kib, parked ? GROWTH_PARKED_KIB : GROWTH_ENDED_KIB);
  if (!parked)
    return 0;
  pthread_mutex_unlock(&parking);
  for (unsigned round = 0; round < ROUNDS; round++)
    CHECK(pthread_join(ids[round], NULL) == 0);
  return 0;
}
