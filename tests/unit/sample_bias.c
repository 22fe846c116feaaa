/* The sampler's estimates compared with exact counts, for programs of different behaviour. The bound is five standard
 * deviations of the estimate, and at most 2.5 % of the exact value. */
#include "inspect/sample.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "hakmem.h"
#include "inspect/sites.h"
#include "pages/pagemap.h"
#include "prng.h"

enum { SAMPLES = 42000 };

/* The exact count, and the variance of the estimate. A block of S bytes, sampled with probability p, adds
 * S^2 (1 - p) / p to it. */
typedef struct Exact {
  double bytes, variance;
  size_t mean;
} Exact;

static double counted_bytes(const void *block) {
  return (double)hak_malloc_usable_size(block);
}

static void note(Exact *exact, const void *block) {
  double bytes = counted_bytes(block), p = exact->mean == 1 ? 1 : -expm1(-bytes / (double)exact->mean);
  exact->bytes += bytes;
  exact->variance += bytes * bytes * (1 - p) / p;
}

static void *noted(Exact *exact, void *block) {
  CHECK(block != NULL);
  note(exact, block);
  return block;
}

static void *noted_malloc(Exact *exact, size_t bytes) {
  return noted(exact, hak_malloc(bytes));
}

static bool enough(const Exact *exact) {
  return exact->bytes * exact->bytes > SAMPLES * exact->variance;
}

/* Allocates and frees the same block repeatedly: the bin is never empty, and no refill happens. */
static void one_block(Exact *exact) {
  while (!enough(exact)) {
    for (int i = 0; i < 1000; i++) {
      hak_free(noted_malloc(exact, 48));
    }
  }
}

static void two_sizes_in_turn(Exact *exact) {
  while (!enough(exact)) {
    void *first = noted_malloc(exact, 24), *second = noted_malloc(exact, 700);
    hak_free(first);
    hak_free(second);
  }
}

static void mix(Exact *exact, uint64_t seed, uint32_t low, uint32_t high) {
  enum { SLOTS = 400 };
  void *slots[SLOTS] = {NULL};
  Prng prng = prng_seeded(seed);
  while (!enough(exact)) {
    for (int i = 0; i < 1000; i++) {
      void **slot = &slots[prng_below(&prng, SLOTS)];
      if (*slot) {
        hak_free(*slot);
        *slot = NULL;
      } else {
        *slot = noted_malloc(exact, low + prng_below(&prng, high - low));
      }
    }
  }
  for (int i = 0; i < SLOTS; i++) {
    hak_free(slots[i]);
  }
}

static void random_mix(Exact *exact) {
  mix(exact, 11, 16, 1040);
}

static void large_mix(Exact *exact) {
  mix(exact, 12, 3000, 300000);
}

static void bursts(Exact *exact, size_t bytes, size_t count) {
  void **blocks = malloc(count * sizeof *blocks);
  while (!enough(exact)) {
    for (size_t i = 0; i < count; i++) {
      blocks[i] = noted_malloc(exact, bytes);
    }
    for (size_t i = 0; i < count; i++) {
      hak_free(blocks[i]);
    }
  }
  free(blocks);
}

static void bursts_of_one_class(Exact *exact) {
  bursts(exact, 100, 20000);
}

static void bursts_of_large_blocks(Exact *exact) {
  bursts(exact, 3000, 100);
}

static void growth_by_realloc(Exact *exact) {
  while (!enough(exact)) {
    size_t bytes = 10;
    char *block = noted_malloc(exact, bytes);
    for (; bytes < 3 << 20; bytes += bytes / 2) {
      double before = counted_bytes(block);
      char *grown = hak_realloc(block, bytes);
      CHECK(grown != NULL);
      if (grown != block || counted_bytes(grown) != before) {
        note(exact, grown);
      }
      block = grown;
    }
    block = noted(exact, hak_realloc(block, 2 << 20)); /* shrinks in place, which counts, too */
    hak_free(block);
  }
}

static void zeroed(Exact *exact) {
  Prng prng = prng_seeded(13);
  while (!enough(exact)) {
    size_t bytes = prng_below(&prng, 16) ? prng_below(&prng, 2000) : prng_below(&prng, 100000);
    char *block = noted(exact, hak_calloc(bytes / 8 + 1, 8));
    CHECK(block[0] == 0 && block[bytes] == 0 && memcmp(block, block + 1, bytes) == 0);
    memset(block, 1, bytes + 1);
    hak_free(block);
  }
}

static void aligned(Exact *exact) {
  Prng prng = prng_seeded(14);
  while (!enough(exact)) {
    size_t alignment = (size_t)32 << prng_below(&prng, 12);
    char *block = noted(exact, hak_memalign(alignment, 1 + prng_below(&prng, (uint32_t)alignment * 3)));
    CHECK((uintptr_t)block % alignment == 0);
    *block = 1;
    hak_free(block);
  }
}

static void huge(Exact *exact) {
  Prng prng = prng_seeded(15);
  while (!enough(exact)) {
    hak_free(noted_malloc(exact, (1 << 20) + prng_below(&prng, 8 << 20)));
  }
}

static void thread_of_ten(Exact *exact) {
  void *blocks[10];
  for (int i = 0; i < 10; i++) {
    blocks[i] = noted_malloc(exact, (size_t)(i + 1) * 100);
  }
  for (int i = 0; i < 10; i++) {
    hak_free(blocks[i]);
  }
}

static void *run_ten(void *exact) {
  for (int i = 0; i < 3; i++) {
    thread_of_ten(exact);
  }
  return NULL;
}

static void short_threads(Exact *exact) {
  while (!enough(exact)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_ten, exact) == 0 && pthread_join(thread, NULL) == 0);
  }
}

enum { THREADS = 4 };
typedef struct Part {
  Exact exact;
  uint64_t seed;
} Part;

static void *run_part(void *argument) {
  Part *part = argument;
  mix(&part->exact, part->seed, 16, 1040);
  return NULL;
}

static void many_threads(Exact *exact) {
  Part parts[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    parts[i] = (Part){{.mean = exact->mean}, (uint64_t)i};
    CHECK(pthread_create(&threads[i], NULL, run_part, &parts[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    exact->bytes += parts[i].exact.bytes;
    exact->variance += parts[i].exact.variance;
  }
}

/* One thread allocates, another frees. */
enum { RING = 256 };
static _Atomic(void *) ring[RING];

static void *consume(void *unused) {
  (void)unused;
  for (uint64_t n = 0;; n++) {
    void *block;
    while (!(block = atomic_exchange(&ring[n % RING], NULL))) {
      sched_yield();
    }
    if (block == (void *)ring) {
      return NULL;
    }
    hak_free(block);
  }
}

static void produce(_Atomic(void *) *slot, void *block) {
  for (void *none = NULL; !atomic_compare_exchange_weak(slot, &none, block); none = NULL) {
    sched_yield();
  }
}

static void producer_and_consumer(Exact *exact) {
  pthread_t consumer;
  uint64_t n = 0;
  CHECK(pthread_create(&consumer, NULL, consume, NULL) == 0);
  while (!enough(exact)) {
    for (int i = 0; i < 1000; i++) {
      produce(&ring[n++ % RING], noted_malloc(exact, 200));
    }
  }
  produce(&ring[n % RING], (void *)ring);
  CHECK(pthread_join(consumer, NULL) == 0);
}

/* The rate changes all the time. Blocks that were counted before a change are few, since bins are small. */
static void changing_rate(Exact *exact) {
  while (!enough(exact)) {
    CHECK(hak_sample_start(exact->mean));
    for (int i = 0; i < 20000; i++) {
      hak_free(noted_malloc(exact, 64));
    }
    hak_sample_stop();
    for (int i = 0; i < 100; i++) {
      hak_free(hak_malloc(64));
    }
    hak_thread_flush(); /* also returns counted batches */
  }
}

typedef struct Habit {
  const char *name;
  void (*run)(Exact *exact);
  size_t mean;
} Habit;

static const Habit habits[] = {
    {"one block", one_block, 2048},
    {"two sizes in turn", two_sizes_in_turn, 8192},
    {"random mix", random_mix, 8192},
    {"large mix", large_mix, 1 << 20},
    {"bursts of one class", bursts_of_one_class, 4096},
    {"bursts of large blocks", bursts_of_large_blocks, 65536},
    {"growth by realloc", growth_by_realloc, 1 << 18},
    {"zeroed", zeroed, 8192},
    {"aligned", aligned, 1 << 20},
    {"huge", huge, 32 << 20},
    {"short threads", short_threads, 1024},
    {"many threads", many_threads, 8192},
    {"producer and consumer", producer_and_consumer, 4096},
    {"changing rate", changing_rate, 4096},
};

typedef struct Run {
  const Habit *habit;
  Exact exact;
} Run;

static void *run_habit(void *argument) {
  Run *run = argument;
  run->habit->run(&run->exact);
  return NULL;
}

static void measure(const Habit *habit, uint64_t seed) {
  Run run = {habit, {.mean = habit->mean}};
  hak_sample_seed(seed);
  double before = hak_sites_allocated();
  CHECK(hak_sample_start(habit->mean));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run_habit, &run) == 0 && pthread_join(thread, NULL) == 0);
  hak_sample_stop();
  double estimate = hak_sites_allocated() - before, error = estimate / run.exact.bytes - 1;
  double deviation = sqrt(run.exact.variance) / run.exact.bytes;
  printf("%-24s %8.0f MiB  error %+.3f %%  standard deviation %.3f %%\n", habit->name, run.exact.bytes / 0x1p20,
         100 * error, 100 * deviation);
  CHECK(5 * deviation < 0.025);
  CHECK(fabs(error) < 5 * deviation);
  CHECK(hak_records_live() == 0 && hak_samples.dropped == 0);
  hak_check();
}

int main(void) {
  for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
    measure(&habits[i], 1000 + i * 100);
  }
  return 0;
}
