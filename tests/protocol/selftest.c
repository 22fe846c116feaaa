/* Tests the explorer itself: with reduction it reaches exactly the final states that it reaches without, and it finds
 * the errors in wrong programs. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "prng.h"
#include "scenarios.h"

enum { THREADS = 3, OPERATIONS = 3, CELLS = 2, PROGRAMS = 30, ENDS = 1 << 16 };

/* Outlives the runs: the program, and the final states that were reached, by a hash of all values that its threads
 * read. */
typedef struct Trial {
  uint8_t operation[THREADS][OPERATIONS];
  bool ends[2][ENDS]; /* with and without reduction */
  int without;
} Trial;

static Trial *trial;
static _Atomic uint32_t cells[CELLS];
static ModelLock locks[CELLS];
static uint32_t seen[THREADS];
static bool forked;

static void operate(uint8_t operation, bool may_lock) {
  int thread = explore_thread();
  int cell = operation % CELLS;
  uint32_t saw = 0;
  switch (operation / CELLS % 5) {
  case 0:
    saw = atomic_load(&cells[cell]);
    break;
  case 1:
    atomic_store(&cells[cell], (uint32_t)thread + 1);
    break;
  case 2:
    saw = atomic_fetch_add(&cells[cell], 1U << 4 * thread);
    break;
  case 3:
    if (may_lock) {
      explore_lock(&locks[cell]);
    }
    saw = atomic_fetch_add(&cells[cell], 7);
    if (may_lock) {
      explore_unlock(&locks[cell]);
    }
    break;
  default:
    if (thread == 0 && operation >= 200) {
      explore_fork();
      forked = true;
    } else if (atomic_exchange(&cells[cell], 99) == 99) {
      trial->ends[trial->without][1 + thread] = true;
      explore_stop();
    }
  }
  seen[thread] = seen[thread] * 31 + saw + 1;
}

static void run_thread(void) {
  for (int i = 0; i < OPERATIONS; i++) {
    operate(trial->operation[explore_thread()][i],
            i == 1 && !explore_is_child()); /* few locks, since each adds two steps */
  }
}

static void begin(void) {}

static void record(void) {
  uint64_t hash = forked;
  for (int t = 0; t < THREADS; t++) {
    hash = prng_mix(hash + seen[t] * 977ULL);
  }
  for (int c = 0; c < CELLS; c++) {
    hash = prng_mix(hash ^ atomic_load(&cells[c]));
  }
  trial->ends[trial->without][hash % ENDS] = true;
}

static void same_ends_without_reduction(void) {
  Scenario scenario = {.name = "random",
                       .setup = begin,
                       .threads = {run_thread, run_thread, run_thread},
                       .finish = record,
                       .crime = true};
  Prng prng = prng_seeded(1);
  uint64_t runs[2] = {0, 0};
  for (int program = 0; program < PROGRAMS; program++) {
    memset(trial, 0, sizeof *trial);
    for (int i = 0; i < THREADS * OPERATIONS; i++) {
      trial->operation[i / OPERATIONS][i % OPERATIONS] = (uint8_t)prng_below(&prng, 256);
    }
    for (int without = 0; without < 2; without++) {
      trial->without = without;
      scenario.all_orders = without;
      runs[without] += explore(&scenario).runs;
    }
    CHECK(memcmp(trial->ends[0], trial->ends[1], ENDS) == 0);
  }
  CHECK(runs[0] * 4 < runs[1]); /* otherwise the reduction would be useless */
  printf("%d programs: %llu runs instead of %llu\n", PROGRAMS, (unsigned long long)runs[0],
         (unsigned long long)runs[1]);
}

static void write_first(void) {
  atomic_store_explicit(&cells[0], 1, memory_order_relaxed);
}
static void write_second(void) {
  atomic_store_explicit(&cells[1], 1, memory_order_relaxed);
}

static void known_numbers_of_runs(void) {
  Scenario apart = {.name = "apart", .setup = begin, .threads = {write_first, write_second}, .finish = begin};
  Scenario together = {.name = "together", .setup = begin, .threads = {write_first, write_first}, .finish = begin};
  CHECK(explore(&apart).runs == 1);
  CHECK(explore(&together).runs == 2);
}

static int message;

static void send_message(void) {
  message = 1;
  atomic_store_explicit(&cells[0], 1, memory_order_release);
}
static void send_too_weakly(void) {
  message = 1;
  atomic_store_explicit(&cells[0], 1, memory_order_relaxed);
}
static void receive_message(void) {
  if (atomic_load_explicit(&cells[0], memory_order_acquire)) {
    EXPECT(message == 1);
  }
}
static void receive_too_weakly(void) {
  if (atomic_load_explicit(&cells[0], memory_order_relaxed)) {
    EXPECT(message == 1);
  }
}
static void add_in_two_steps(void) {
  uint32_t before = atomic_load(&cells[0]);
  atomic_store(&cells[0], before + 1);
}
static void both_added(void) {
  EXPECT(atomic_load(&cells[0]) == 2);
}
static void lock_both(int first) {
  explore_lock(&locks[first]);
  explore_lock(&locks[1 - first]);
  explore_unlock(&locks[1 - first]);
  explore_unlock(&locks[first]);
}
static void lock_up(void) {
  lock_both(0);
}
static void lock_down(void) {
  lock_both(1);
}

/* Runs in a child process, since a failure ends it. */
static bool fails(const Scenario *scenario) {
  int status;
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(freopen("/dev/null", "w", stderr) != NULL);
    explore(scenario);
    _Exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status) != 0;
}

static void describe(const void *address, char *text, size_t capacity) {
  snprintf(text, capacity, "%p", address);
}

void selftest(void) {
  explore_describe = describe;
  trial = explore_memory(sizeof *trial); /* before the first run, whose initial state all runs share */
  known_numbers_of_runs();
  same_ends_without_reduction();
  CHECK(!fails(
      &(Scenario){.name = "message", .setup = begin, .threads = {send_message, receive_message}, .finish = begin}));
  CHECK(fails(&(Scenario){
      .name = "weak send", .setup = begin, .threads = {send_too_weakly, receive_message}, .finish = begin}));
  CHECK(fails(&(Scenario){
      .name = "weak receive", .setup = begin, .threads = {send_message, receive_too_weakly}, .finish = begin}));
  CHECK(fails(&(Scenario){
      .name = "lost", .setup = begin, .threads = {add_in_two_steps, add_in_two_steps}, .finish = both_added}));
  CHECK(fails(&(Scenario){.name = "deadlock", .setup = begin, .threads = {lock_up, lock_down}, .finish = begin}));
}
