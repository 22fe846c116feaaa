// Patterns with threads or processes.
#include "retention.h"

#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 8 };

typedef struct {
  const pattern_t *pattern;
  uint64_t bytes;
  uint32_t number;
} worker_t;

// Runs `work` in THREADS threads, each with an equal part of the memory, and waits for them.
static void run_workers(const pattern_t *pattern, void *(*work)(void *)) {
  pthread_t threads[THREADS];
  worker_t workers[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) {
    workers[i] = (worker_t){pattern, pattern_bytes(pattern) / THREADS, i};
    if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
      bench_fail("retention: no thread");
  }
  for (uint32_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

static void *work_once(void *argument) {
  const worker_t *worker = argument;
  bag_t bag = bag_for(worker->bytes, worker->pattern->sizes, 60 + worker->number);
  bag_fill(&bag, worker->bytes, worker->pattern->sizes);
  bag_close(&bag);
  return NULL;
}

// Threads that live for one job.
static void run_batch(const pattern_t *pattern) {
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    run_workers(pattern, work_once);
    measure_cycle_end();
    pause_ms(pattern->pause_ms);
  }
}

// Each thread's demand rises and falls with peaks and pauses of its own.
static void *work_own_cycles(void *argument) {
  enum { PAUSE_STEP_MS = 5 };
  const worker_t *worker = argument;
  bag_t bag = bag_for(worker->bytes, worker->pattern->sizes, 70 + worker->number);
  for (uint32_t round = 0; round < pattern_rounds(worker->pattern); round++) {
    bag_fill(&bag, worker->bytes * (1 + (round * 3 + worker->number) % 4) / 4, worker->pattern->sizes);
    bag_drain(&bag, worker->bytes / 20, ANY);
    pause_ms(worker->number * PAUSE_STEP_MS);
  }
  bag_close(&bag);
  return NULL;
}

static void run_own_cycles(const pattern_t *pattern) {
  run_workers(pattern, work_own_cycles);
}

// Threads that free everything and then wait for ever; the process ends with them asleep.
static pthread_barrier_t all_freed;

_Noreturn static void *work_sleep(void *argument) {
  work_once(argument);
  pthread_barrier_wait(&all_freed);
  for (;;)
    pause();
}

static void run_sleepers(const pattern_t *pattern) {
  static worker_t workers[THREADS];
  pthread_barrier_init(&all_freed, NULL, THREADS + 1);
  for (uint32_t i = 0; i < THREADS; i++) {
    pthread_t thread;
    workers[i] = (worker_t){pattern, pattern_bytes(pattern) / THREADS, i};
    if (pthread_create(&thread, NULL, work_sleep, &workers[i]) != 0)
      bench_fail("retention: no thread");
  }
  pthread_barrier_wait(&all_freed);
}

// Large messages from one thread to another, through a queue that is sometimes full and sometimes empty.
enum { QUEUE = 64 };

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  void *messages[QUEUE];
  uint64_t put;
  uint64_t taken;
  bool ended;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *consume(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&queue.lock);
    while (queue.put == queue.taken && !queue.ended)
      pthread_cond_wait(&queue.changed, &queue.lock);
    if (queue.put == queue.taken)
      break;
    void *message = queue.messages[queue.taken++ % QUEUE];
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    free(message);
  }
  pthread_mutex_unlock(&queue.lock);
  return NULL;
}

// All messages of a burst are put into the queue before the consumer sees it, so that the live memory does not depend
// on timing.
static void run_messages(const pattern_t *pattern) {
  uint64_t random = bench_seed(80);
  pthread_t consumer;
  if (pthread_create(&consumer, NULL, consume, NULL) != 0)
    bench_fail("retention: no thread");
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    uint32_t count = QUEUE / 4 * (1 + round % 4);
    void *burst[QUEUE];
    measure_cycle_begin();
    for (uint32_t i = 0; i < count; i++)
      burst[i] = bench_filled(scaled(sizes_draw(pattern->sizes, &random)));
    pthread_mutex_lock(&queue.lock);
    for (uint32_t i = 0; i < count; i++)
      queue.messages[queue.put++ % QUEUE] = burst[i];
    pthread_cond_broadcast(&queue.changed);
    while (queue.put != queue.taken)
      pthread_cond_wait(&queue.changed, &queue.lock);
    pthread_mutex_unlock(&queue.lock);
    measure_cycle_end();
  }
  pthread_mutex_lock(&queue.lock);
  queue.ended = true;
  pthread_cond_broadcast(&queue.changed);
  pthread_mutex_unlock(&queue.lock);
  pthread_join(consumer, NULL);
}

// Mapper threads build lists; the main thread reduces them and frees the memory of all other threads.
static bag_t mapped[THREADS];

static void *map_part(void *argument) {
  const worker_t *worker = argument;
  bag_fill(&mapped[worker->number], worker->bytes, worker->pattern->sizes);
  return NULL;
}

static void run_map_reduce(const pattern_t *pattern) {
  for (uint32_t i = 0; i < THREADS; i++)
    mapped[i] = bag_for(pattern_bytes(pattern) / THREADS, pattern->sizes, 90 + i);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    run_workers(pattern, map_part);
    char *result = bench_filled(pattern_bytes(pattern) / THREADS);
    for (uint32_t i = 0; i < THREADS; i++)
      bag_drain(&mapped[i], 0, OLDEST);
    free(result);
    measure_cycle_end();
  }
  for (uint32_t i = 0; i < THREADS; i++)
    bag_close(&mapped[i]);
}

// A parent forks workers one after another. Each runs some cycles on the heap that it inherited from the parent.
static void run_fork(const pattern_t *pattern) {
  enum { CYCLES_A_WORKER = 4 };
  uint64_t bytes = pattern_bytes(pattern) / 2;
  bag_t parent = bag_for(bytes, pattern->sizes, 98);
  bag_fill(&parent, bytes, pattern->sizes);
  for (uint32_t round = 0; round < pattern_rounds(pattern); round++) {
    measure_cycle_begin();
    pid_t child = fork();
    if (child < 0)
      bench_fail("retention: no process");
    if (child == 0) {
      bag_t bag = bag_for(bytes, pattern->sizes, 99);
      for (uint32_t i = 0; i < CYCLES_A_WORKER; i++) {
        bag_fill(&bag, bytes, pattern->sizes);
        bag_drain(&bag, bytes / 10, ANY);
      }
      _exit(0);
    }
    waitpid(child, NULL, 0);
    bag_churn(&parent, bytes / 4, pattern->sizes);
    measure_cycle_end();
  }
  bag_close(&parent);
}

const pattern_t thread_patterns[] = {
    {.name = "threads-batch",
     .run = run_batch,
     .mib = 240,
     .rounds = 8,
     .sizes = {64, 256 * KIB, false},
     .what = "8 threads of 30 MiB begin, work and end, again"},
    {.name = "threads-batch-slow",
     .run = run_batch,
     .mib = 160,
     .rounds = 8,
     .sizes = {32, 8 * KIB, false},
     .pause_ms = 300,
     .what = "8 threads of 20 MiB begin, work and end every 0.3 s"},
    {.name = "threads-cycles",
     .run = run_own_cycles,
     .mib = 320,
     .rounds = 24,
     .sizes = {64, 512 * KIB, false},
     .what = "8 threads with rises and falls of their own, to 40 MiB each"},
    {.name = "threads-small",
     .run = run_own_cycles,
     .mib = 200,
     .rounds = 16,
     .sizes = {16, KIB, false},
     .what = "8 threads with rises and falls of small blocks, to 25 MiB each"},
    {.name = "messages",
     .run = run_messages,
     .rounds = 60,
     .sizes = {256 * KIB, 4 * MIB, false},
     .what = "bursts of 16-64 messages of 256 KiB-4 MiB, freed by another thread"},
    {.name = "map-reduce",
     .run = run_map_reduce,
     .mib = 240,
     .rounds = 10,
     .sizes = {48, 4 * KIB, false},
     .what = "8 threads build 30 MiB each, the main thread frees them"},
    {.name = "fork-workers",
     .run = run_fork,
     .mib = 120,
     .rounds = 8,
     .sizes = {64, 64 * KIB, false},
     .what = "workers forked from a parent of 60 MiB, with cycles of 60 MiB"},
    {.name = "sleepers",
     .run = run_sleepers,
     .mib = 1024,
     .rounds = 1,
     .sizes = {KIB, 256 * KIB, false},
     .what = "8 threads free 1 GiB and fall asleep"},
    {0},
};
