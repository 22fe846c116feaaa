// handover PRODUCERS CONSUMERS ARRAYS [BLOCKS [DEPTH [MIN MAX]]]: producers fill arrays of BLOCKS small blocks and put
// them into a queue of at most DEPTH arrays. Consumers take them out and free the blocks and the array itself. ARRAYS
// arrays are handed over in all. Sizes are multiples of 8 from MIN to MAX; each doubling is half as likely as the last.
#include "bench.h"

#include <pthread.h>
#include <stdbool.h>

enum { MAX_THREADS = 64, MAX_DEPTH = 4096, SIZE_STEP = 8, SIZES = 1024 };

typedef struct array {
  struct array *next;
  void *blocks[];
} array_t;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t has_array, has_room;
  array_t *first, **last;
  uint32_t length, depth;
  uint64_t to_make, to_take; // arrays not yet begun by a producer; arrays not yet taken by a consumer
} queue = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .has_array = PTHREAD_COND_INITIALIZER, .has_room = PTHREAD_COND_INITIALIZER};

static struct {
  uint32_t producers, consumers, blocks;
  uint32_t sizes[SIZES]; // drawn from uniformly
} run;

// Returns true if another array is to be made; the caller must then make it and put it into the queue.
static bool queue_begin(void) {
  pthread_mutex_lock(&queue.lock);
  bool more = queue.to_make > 0;
  queue.to_make -= more;
  pthread_mutex_unlock(&queue.lock);
  return more;
}

static void queue_put(array_t *array) {
  array->next = NULL;
  pthread_mutex_lock(&queue.lock);
  while (queue.length == queue.depth)
    pthread_cond_wait(&queue.has_room, &queue.lock);
  *queue.last = array;
  queue.last = &array->next;
  queue.length++;
  pthread_cond_signal(&queue.has_array);
  pthread_mutex_unlock(&queue.lock);
}

// Waits for an array and takes it out; returns NULL when all arrays have been taken.
static array_t *queue_take(void) {
  pthread_mutex_lock(&queue.lock);
  while (queue.first == NULL && queue.to_take > 0)
    pthread_cond_wait(&queue.has_array, &queue.lock);
  array_t *array = queue.first;
  if (array != NULL) {
    queue.first = array->next;
    if (queue.first == NULL)
      queue.last = &queue.first;
    queue.length--;
    if (--queue.to_take == 0)
      pthread_cond_broadcast(&queue.has_array);
    pthread_cond_signal(&queue.has_room);
  }
  pthread_mutex_unlock(&queue.lock);
  return array;
}

static void *produce(void *arg) {
  uint64_t random = bench_seed((uintptr_t)arg);
  while (queue_begin()) {
    array_t *array = bench_malloc(sizeof *array + run.blocks * sizeof(void *));
    for (uint32_t i = 0; i < run.blocks; i++)
      array->blocks[i] = bench_touched(run.sizes[(bench_next(&random) >> 32) % SIZES]);
    queue_put(array);
  }
  return NULL;
}

static void *consume(void *unused) {
  for (array_t *array; (array = queue_take()) != NULL; free(array))
    for (uint32_t i = 0; i < run.blocks; i++)
      free(array->blocks[i]);
  return unused;
}

// Each band of sizes reaches from a size to twice that size, and is half as likely as the band below it; the last one
// is as likely as its neighbour. Within a band, all multiples of SIZE_STEP are equally likely.
static void sizes_fill(uint32_t low, uint32_t high) {
  uint64_t random = bench_seed(11);
  for (uint32_t i = 0; i < SIZES; i++) {
    uint32_t from = low;
    while (from * 2 < high && bench_random(&random, 2) == 0)
      from *= 2;
    uint32_t to = from * 2 < high ? from * 2 : high;
    run.sizes[i] = from + bench_random(&random, (to - from) / SIZE_STEP + 1) * SIZE_STEP;
  }
}

static void run_configure(int argc, char **argv) {
  bench_expect_args(argc, argv, 7, "PRODUCERS CONSUMERS ARRAYS [BLOCKS [DEPTH [MIN MAX]]]");
  run.producers = (uint32_t)bench_arg(argc, argv, 1, "PRODUCERS", 1, 1, MAX_THREADS);
  run.consumers = (uint32_t)bench_arg(argc, argv, 2, "CONSUMERS", 1, 1, MAX_THREADS);
  queue.to_make = queue.to_take = bench_arg(argc, argv, 3, "ARRAYS", 2500, 1, UINT64_C(1000000000));
  run.blocks = (uint32_t)bench_arg(argc, argv, 4, "BLOCKS", 4096, 1, 1 << 24);
  queue.depth = (uint32_t)bench_arg(argc, argv, 5, "DEPTH", 16, 1, MAX_DEPTH);
  uint32_t low = (uint32_t)bench_arg(argc, argv, 6, "MIN", 8, SIZE_STEP, 1 << 20);
  uint32_t high = (uint32_t)bench_arg(argc, argv, 7, "MAX", 256, SIZE_STEP, 1 << 20);
  bench_expect_order(argv, low, high);
  queue.last = &queue.first;
  sizes_fill(low, high);
}

int main(int argc, char **argv) {
  run_configure(argc, argv);
  uint64_t arrays = queue.to_make;
  pthread_t ids[2 * MAX_THREADS];
  uint32_t count = run.producers + run.consumers;
  double start = bench_seconds();
  for (uintptr_t i = 0; i < count; i++)
    if (pthread_create(&ids[i], NULL, i < run.producers ? produce : consume, (void *)i) != 0)
      bench_fail("handover: cannot create a thread");
  for (uint32_t i = 0; i < count; i++)
    pthread_join(ids[i], NULL);
  double took = bench_seconds() - start;
  printf("handover = %.2f ns/block [producers=%u consumers=%u blocks=%u] time=%.3fs\n",
         took * 1e9 / ((double)arrays * run.blocks), run.producers, run.consumers, run.blocks, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
