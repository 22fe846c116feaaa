// inherit PLACES LIVES OPS [BLOCKS [MIN MAX]]: PLACES arrays of BLOCKS blocks are each passed from thread to thread. A
// thread replaces OPS random blocks, creates its successor, which inherits the array, and ends. LIVES threads use an
// array one after another. Nearly every block is freed by another thread than the one that allocated it.
#include "bench.h"

#include <pthread.h>

enum { MAX_PLACES = 64 };

typedef struct {
  _Alignas(BENCH_LINE_BYTES) void **blocks;
  uint64_t random;
  uint32_t lives_left;
} place_t;

static struct {
  uint64_t ops;
  uint32_t places, blocks, min_bytes, size_count;
  uint32_t open; // places; under the lock
  pthread_mutex_t lock;
  pthread_cond_t closed;
} run = {.lock = PTHREAD_MUTEX_INITIALIZER, .closed = PTHREAD_COND_INITIALIZER};

static void *random_block(place_t *place) {
  return bench_touched(run.min_bytes + bench_random(&place->random, run.size_count));
}

static void *life(void *arg);

static void life_start(place_t *place) {
  pthread_t id;
  if (pthread_create(&id, NULL, life, place) != 0)
    bench_fail("inherit: cannot create a thread");
  pthread_detach(id);
}

static void place_close(void) {
  pthread_mutex_lock(&run.lock);
  if (--run.open == 0)
    pthread_cond_signal(&run.closed);
  pthread_mutex_unlock(&run.lock);
}

static void *life(void *arg) {
  place_t *place = arg;
  for (uint64_t i = 0; i < run.ops; i++) {
    void **block = &place->blocks[bench_random(&place->random, run.blocks)];
    free(*block);
    *block = random_block(place);
  }
  if (--place->lives_left > 0)
    life_start(place);
  else
    place_close();
  return NULL;
}

static void run_configure(int argc, char **argv) {
  bench_expect_args(argc, argv, 6, "PLACES LIVES OPS [BLOCKS [MIN MAX]]");
  run.places = (uint32_t)bench_arg(argc, argv, 1, "PLACES", 8, 1, MAX_PLACES);
  run.ops = bench_arg(argc, argv, 3, "OPS", 50000, 1, UINT64_C(1000000000));
  run.blocks = (uint32_t)bench_arg(argc, argv, 4, "BLOCKS", 5000, 1, 1 << 24);
  run.min_bytes = (uint32_t)bench_arg(argc, argv, 5, "MIN", 8, 1, 1 << 20);
  uint32_t high = (uint32_t)bench_arg(argc, argv, 6, "MAX", 1000, 1, 1 << 20);
  bench_expect_order(argv, run.min_bytes, high);
  run.size_count = high - run.min_bytes + 1;
  run.open = run.places;
}

int main(int argc, char **argv) {
  run_configure(argc, argv);
  uint32_t lives = (uint32_t)bench_arg(argc, argv, 2, "LIVES", 20, 1, 1 << 20);
  place_t *places = bench_map(run.places * sizeof *places);
  for (uint32_t i = 0; i < run.places; i++) {
    places[i] = (place_t){bench_map(run.blocks * sizeof(void *)), bench_seed(i), lives};
    for (uint32_t k = 0; k < run.blocks; k++)
      places[i].blocks[k] = random_block(&places[i]);
  }

  double start = bench_seconds();
  for (uint32_t i = 0; i < run.places; i++)
    life_start(&places[i]);
  pthread_mutex_lock(&run.lock);
  while (run.open > 0)
    pthread_cond_wait(&run.closed, &run.lock);
  pthread_mutex_unlock(&run.lock);
  double took = bench_seconds() - start;
  printf("inherit = %.2f ns/op [places=%u lives=%u blocks=%u] time=%.3fs\n",
         took * 1e9 / ((double)run.places * lives * (double)run.ops), run.places, lives, run.blocks, took);
  printf("RSS peak_kib=%llu\n", (unsigned long long)bench_peak_kib());
  return 0;
}
