/* Forks of a process whose threads allocate and free small blocks without a pause. A thread publishes each block with
 * its contents, and withdraws it before the free, so every child knows blocks that are live. The child adopts what the
 * other threads cached, fills memory with blocks of its own, and finds all contents as they were written.
 * arguments: least and greatest size of the blocks, number of forks */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "churn.h"

enum { THREADS = 5, SLOTS = 64, TURN_STEPS = 500, CHILD_BLOCKS = 12000 };

struct published {
  _Atomic(unsigned char *) start; /* NULL: the program has no block here */
  size_t bytes;
};

struct worker {
  struct published slots[SLOTS];
  uint64_t random;
  pthread_t id;
  _Atomic unsigned rounds;
};

static struct worker workers[THREADS];
static size_t least, greatest;
static _Atomic bool stop;

static size_t some_size(uint64_t *random) {
  return least + check_random(random) % (greatest - least + 1);
}

static struct churn_block made(uint64_t *random) {
  struct churn_block block = {NULL, some_size(random)};
  block.start = malloc(block.bytes);
  CHECK(block.start != NULL);
  churn_block_fill(block);
  return block;
}

static struct churn_block block_of(const struct published *slot) {
  return (struct churn_block){atomic_load_explicit(&slot->start, memory_order_relaxed), slot->bytes};
}

/* A fork sees the stores of another thread in program order, so the compiler alone must keep them so. */
static void publish(struct published *slot, struct churn_block block) {
  slot->bytes = block.bytes;
  atomic_signal_fence(memory_order_release);
  atomic_store_explicit(&slot->start, block.start, memory_order_relaxed);
}

static void withdraw(struct published *slot) {
  atomic_store_explicit(&slot->start, NULL, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}

static void step(struct worker *worker) {
  struct published *slot = &worker->slots[check_random(&worker->random) % SLOTS];
  struct churn_block block = block_of(slot);
  if (!block.start) {
    publish(slot, made(&worker->random));
    return;
  }
  churn_block_verify(block);
  withdraw(slot);
  if (check_random(&worker->random) % 8 == 0) {
    block.bytes = some_size(&worker->random);
    CHECK((block.start = realloc(block.start, block.bytes)) != NULL);
    churn_block_fill(block);
    publish(slot, block);
  } else {
    free(block.start);
  }
}

static void *work(void *argument) {
  struct worker *worker = argument;
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    step(worker);
    atomic_fetch_add_explicit(&worker->rounds, 1, memory_order_relaxed);
  }
  return NULL;
}

static void *work_a_turn(void *argument) {
  struct worker *worker = argument;
  for (unsigned i = 0; i < TURN_STEPS; i++)
    step(worker);
  return NULL;
}

/* One thread after the other, so that a fork may come while a thread ends. */
static void *work_in_turns(void *argument) {
  struct worker *worker = argument;
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, work_a_turn, worker) == 0 && pthread_join(id, NULL) == 0);
    atomic_fetch_add_explicit(&worker->rounds, 1, memory_order_relaxed);
  }
  return NULL;
}

static void each_published(void (*act)(struct churn_block block)) {
  for (unsigned i = 0; i < THREADS * SLOTS; i++) {
    struct churn_block block = block_of(&workers[i / SLOTS].slots[i % SLOTS]);
    if (block.start)
      act(block);
  }
}

static void verify_and_free(struct churn_block block) {
  churn_block_verify(block);
  free(block.start);
}

static void child_main(uint64_t random) {
  static struct churn_block own[CHILD_BLOCKS];
  each_published(churn_block_verify);
  for (unsigned i = 0; i < CHILD_BLOCKS; i++)
    own[i] = made(&random);
  each_published(verify_and_free);
  for (unsigned i = 0; i < CHILD_BLOCKS; i++)
    verify_and_free(own[i]);
  _exit(0);
}

int main(int count, char **arguments) {
  CHECK(count == 4);
  check_served();
  least = check_count(arguments[1]);
  greatest = check_count(arguments[2]);
  unsigned forks = check_count(arguments[3]);
  for (unsigned i = 0; i < THREADS; i++) {
    workers[i].random = i + 1;
    CHECK(pthread_create(&workers[i].id, NULL, i == 0 ? work_in_turns : work, &workers[i]) == 0);
  }
  for (unsigned number = 0; number < forks; number++) {
    pid_t child = fork();
    if (child == 0)
      child_main(number + 1);
    check_child(child);
  }
  atomic_store(&stop, true);
  for (unsigned i = 0; i < THREADS; i++)
    CHECK(pthread_join(workers[i].id, NULL) == 0 && workers[i].rounds > 0);
  each_published(verify_and_free);
  return 0;
}
