// Ports in which the blocks of a region go together.
#include "regions.h"

#include <pthread.h>

enum { THREADS = 8, SIZES = 4096 };

static uint32_t sizes[SIZES];
static const side_t *side;
static pthread_barrier_t begin;

// What one thread does, and its figures.
typedef struct {
  pthread_t id;
  uint64_t random, end_ns, ended; // time to end blocks, and how many
  void **table;
} worker_t;

// Starts the threads together; returns the sums of their figures. Tables are mapped before.
static worker_t together(void *(*work)(void *worker), size_t table_bytes) {
  static worker_t workers[THREADS];
  worker_t sum = {0};
  pthread_barrier_init(&begin, NULL, THREADS);
  for (uint32_t i = 0; i < THREADS; i++)
    workers[i] = (worker_t){.random = bench_seed(i), .table = bench_map(table_bytes)};
  uint64_t tables_kib = bench_rss_kib();
  for (uint32_t i = 0; i < THREADS; i++)
    if (pthread_create(&workers[i].id, NULL, work, &workers[i]) != 0)
      bench_fail("regions: cannot create a thread");
  for (uint32_t i = 0; i < THREADS; i++) {
    pthread_join(workers[i].id, NULL);
    sum.end_ns += workers[i].end_ns;
    sum.ended += workers[i].ended;
  }
  printf(" peak_kib=%llu", (unsigned long long)(bench_peak_kib() - tables_kib));
  return sum;
}

// All blocks of the table go. Returns the heap for the next ones.
static void *end_blocks(worker_t *worker, void *heap, void **blocks, uint32_t count, bool keep_heap) {
  uint64_t start = thread_ns();
  if (side->end == NULL) {
    for (uint32_t i = 0; i < count; i++)
      free(blocks[i]);
  } else if (keep_heap && side->reset != NULL) {
    side->reset(heap);
  } else {
    side->end(heap);
    heap = keep_heap ? side->make() : NULL;
  }
  worker->end_ns += thread_ns() - start;
  worker->ended += count;
  return heap;
}

static void print_ends(worker_t sum) {
  printf(" end_ns_block=%.2f", (double)sum.end_ns / (double)sum.ended);
}

enum { REQUESTS = 200, REQUEST_BLOCKS = 2000 };

static void *requests_main(void *argument) {
  worker_t *me = argument;
  void *heap = side->make();
  pthread_barrier_wait(&begin);
  for (uint32_t request = 0; request < REQUESTS; request++) {
    for (uint32_t i = 0; i < REQUEST_BLOCKS; i++) {
      uint32_t bytes = sizes[bench_random(&me->random, SIZES)];
      me->table[i] = side_take(side, heap, bytes);
      fill(me->table[i], bytes, i);
    }
    heap = end_blocks(me, heap, me->table, REQUEST_BLOCKS, true);
  }
  return NULL;
}

static void requests(const side_t *chosen) {
  side = chosen;
  bench_program_sizes(sizes, SIZES, 16, 8);
  print_ends(together(requests_main, REQUEST_BLOCKS * sizeof(void *)));
}

enum { SHORT_REGIONS = 10000 / THREADS, SHORT_BYTES = 50 << 10, SHORT_ALIVE = 8, SHORT_BLOCKS = 1 << 10 };

static void *short_main(void *argument) {
  worker_t *me = argument;
  void *heaps[SHORT_ALIVE] = {0};
  uint32_t counts[SHORT_ALIVE] = {0};
  pthread_barrier_wait(&begin);
  for (uint32_t n = 0; n < SHORT_REGIONS + SHORT_ALIVE; n++) {
    uint32_t at = n % SHORT_ALIVE;
    void **blocks = me->table + (size_t)at * SHORT_BLOCKS;
    if (heaps[at] != NULL)
      heaps[at] = end_blocks(me, heaps[at], blocks, counts[at], false);
    if (n >= SHORT_REGIONS)
      continue;
    heaps[at] = side->make();
    counts[at] = 0;
    for (size_t total = 0; total < SHORT_BYTES && counts[at] < SHORT_BLOCKS; counts[at]++) {
      uint32_t bytes = sizes[bench_random(&me->random, SIZES)];
      blocks[counts[at]] = side_take(side, heaps[at], bytes);
      fill(blocks[counts[at]], bytes, n);
      total += bytes;
    }
  }
  return NULL;
}

static void short_lives(const side_t *chosen) {
  side = chosen;
  bench_program_sizes(sizes, SIZES, 16, 6);
  print_ends(together(short_main, SHORT_ALIVE * SHORT_BLOCKS * sizeof(void *)));
}

enum { LIMIT_BYTES = 16 << 20, LIMIT_ROUNDS = 20 };

static void *limit_main(void *argument) {
  worker_t *me = argument;
  void *heap = side->make();
  if (!side->limit(heap, LIMIT_BYTES))
    bench_fail("regions: no limit");
  pthread_barrier_wait(&begin);
  for (uint32_t round = 0; round < LIMIT_ROUNDS; round++) {
    for (;;) {
      uint32_t bytes = sizes[bench_random(&me->random, SIZES)];
      void *block = side->take(heap, bytes);
      if (block == NULL)
        break;
      fill(block, bytes, round);
    }
    pthread_barrier_wait(&begin); // all are full at once
    side->reset(heap);
  }
  return NULL;
}

static void limit(const side_t *chosen) {
  if (chosen->limit == NULL)
    bench_fail("regions: this library has no limits");
  side = chosen;
  bench_program_sizes(sizes, SIZES, 16, 11);
  together(limit_main, BENCH_PAGE_BYTES);
  printf(" limits_kib=%u", THREADS * (LIMIT_BYTES >> 10));
}

enum { DESTROYED = 1000000, DESTROYED_BYTES = 64, DESTROY_ROUNDS = 6 };

static void destroy(const side_t *chosen) {
  side = chosen;
  worker_t me = {.table = bench_map(DESTROYED * sizeof(void *))};
  uint64_t first = 0, least = UINT64_MAX;
  for (uint32_t round = 0; round < DESTROY_ROUNDS; round++) {
    void *heap = side->make();
    for (uint32_t i = 0; i < DESTROYED; i++) {
      me.table[i] = side_take(side, heap, DESTROYED_BYTES);
      fill(me.table[i], DESTROYED_BYTES, i);
    }
    me.end_ns = 0;
    end_blocks(&me, heap, me.table, DESTROYED, false);
    first = round == 0 ? me.end_ns : first;
    least = me.end_ns < least ? me.end_ns : least;
  }
  printf(" first_us=%.0f least_us=%.0f", (double)first / 1e3, (double)least / 1e3);
}

const port_t life_ports[] = {
    {"requests", requests}, {"short", short_lives}, {"limit", limit}, {"destroy", destroy}, {NULL, NULL}};
