/* Scenarios of blocks that move between threads. */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "names.h"
#include "pattern.h"
#include "prng.h"
#include "scenario.h"

/* A bounded queue of blocks. Only its mutex orders the threads, as in a real program. */
enum { QUEUE_SLOTS = 256 };

typedef struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  size_t head, tail;
  void *blocks[QUEUE_SLOTS];
} Queue;

static void queue_init(Queue *queue) {
  *queue = (Queue){.head = 0};
  CHECK(pthread_mutex_init(&queue->mutex, NULL) == 0);
  CHECK(pthread_cond_init(&queue->changed, NULL) == 0);
}

static void queue_put(Queue *queue, void *block) {
  pthread_mutex_lock(&queue->mutex);
  while (queue->tail - queue->head == QUEUE_SLOTS) {
    pthread_cond_wait(&queue->changed, &queue->mutex);
  }
  queue->blocks[queue->tail++ % QUEUE_SLOTS] = block;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
}

static void *queue_get(Queue *queue) {
  pthread_mutex_lock(&queue->mutex);
  while (queue->tail == queue->head) {
    pthread_cond_wait(&queue->changed, &queue->mutex);
  }
  void *block = queue->blocks[queue->head++ % QUEUE_SLOTS];
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
  return block;
}

/* The first word of a message is its size, so that the receiver can verify the rest. */
static void *message(Prng *prng, size_t largest) {
  size_t bytes = 16 + prng_below(prng, (uint32_t)(largest - 16));
  unsigned char *block = hak_malloc(bytes);
  CHECK(block != NULL);
  memcpy(block, &bytes, sizeof bytes);
  pattern_fill(block + sizeof bytes, bytes - sizeof bytes, bytes);
  return block;
}

static void accept_message(void *received) {
  unsigned char *block = received;
  size_t bytes;
  memcpy(&bytes, block, sizeof bytes);
  CHECK(pattern_holds(block + sizeof bytes, bytes - sizeof bytes, bytes - sizeof bytes, bytes));
  hak_free(block);
}

enum { MESSAGES = 60000, PAIRS = 2 };
static Queue queues[PAIRS * 2];

static void *produce_or_consume(void *argument) {
  size_t index = (size_t)argument;
  Queue *queue = &queues[index / 2];
  Prng prng = prng_seeded(index);
  for (int i = 0; i < MESSAGES; i++) {
    if (index % 2 == 0) {
      queue_put(queue, message(&prng, i % 50 == 0 ? 30000 : 500));
    } else {
      accept_message(queue_get(queue));
    }
  }
  return NULL;
}

void producer_consumer(void) {
  for (size_t i = 0; i < PAIRS; i++) {
    queue_init(&queues[i]);
  }
  run_threads(PAIRS * 2, produce_or_consume);
}

/* Each thread sends blocks to its neighbour in a ring, and frees the blocks that arrive. */
enum { RING = 4 };

static void *send_and_receive(void *argument) {
  size_t index = (size_t)argument;
  Prng prng = prng_seeded(index);
  for (int i = 0; i < MESSAGES / 2; i++) {
    queue_put(&queues[(index + 1) % RING], message(&prng, 2000));
    accept_message(queue_get(&queues[index]));
  }
  return NULL;
}

void remote_free(void) {
  for (size_t i = 0; i < RING; i++) {
    queue_init(&queues[i]);
  }
  run_threads(RING, send_and_receive);
}

static Queue only_frees;

static void *free_only(void *argument) {
  (void)argument;
  for (int i = 0; i < MESSAGES; i++) {
    accept_message(queue_get(&only_frees));
  }
  return NULL;
}

void thread_only_frees(void) {
  queue_init(&only_frees);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, free_only, NULL) == 0);
  Prng prng = prng_seeded(7);
  for (int i = 0; i < MESSAGES; i++) {
    queue_put(&only_frees, message(&prng, 300));
  }
  CHECK(pthread_join(thread, NULL) == 0);
}

static pthread_mutex_t vector_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t *vector;
static size_t vector_length;

/* The threads share one growing array, and each has a private one. */
static void *append(void *argument) {
  uint32_t *own = NULL;
  size_t index = (size_t)argument;
  for (uint32_t i = 0; i < 10000; i++) {
    pthread_mutex_lock(&vector_mutex);
    vector = hak_reallocarray(vector, vector_length + 1, sizeof *vector);
    CHECK(vector != NULL);
    vector[vector_length] = (uint32_t)vector_length;
    vector_length++;
    pthread_mutex_unlock(&vector_mutex);
    own = hak_realloc(own, (i % 1500 + 1) * sizeof *own * (index + 1));
    CHECK(own != NULL);
    own[i % 1500] = i;
  }
  hak_free(own);
  return NULL;
}

void concurrent_realloc(void) {
  enum { THREADS = 4 };
  run_threads(THREADS, append);
  CHECK(vector_length == THREADS * 10000);
  for (size_t i = 0; i < vector_length; i++) {
    CHECK(vector[i] == i);
  }
  hak_free(vector);
}

static void *churn_large(void *argument) {
  Prng prng = prng_seeded((size_t)argument);
  unsigned char *blocks[8] = {NULL};
  size_t sizes[8];
  for (int i = 0; i < 2000; i++) {
    size_t at = prng_below(&prng, 8);
    if (blocks[at] != NULL) {
      CHECK(pattern_holds(blocks[at], sizes[at], sizes[at], at));
      hak_free(blocks[at]);
    }
    sizes[at] = 1 + prng_below(&prng, prng_below(&prng, 8) == 0 ? 8 << 20 : 300000);
    blocks[at] = hak_malloc(sizes[at]);
    CHECK(blocks[at] != NULL);
    pattern_fill(blocks[at], sizes[at], at);
  }
  for (size_t at = 0; at < 8; at++) {
    hak_free(blocks[at]);
  }
  return NULL;
}

void large_blocks(void) {
  run_threads(4, churn_large);
}
