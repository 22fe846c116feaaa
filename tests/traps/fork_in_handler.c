/* fork() in a signal handler that may interrupt malloc and free anywhere. Parent and child return from the handler,
 * finish the interrupted call, and go on. arguments: number of other threads that allocate meanwhile; and "everywhere":
 * these get signals, too, as many as the main thread can send */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum {
  FORKS = 120,
  FORKS_EVERYWHERE = 250,
  TABLE = 64,
  CHILD_STEPS = 300,
  THREADS_MAX = 4,
  INTERVAL_NS = 150 * 1000,
  STEPS_PER_SIGNAL = 16
};

static volatile sig_atomic_t is_child;
static atomic_int forks;
static atomic_bool stop;
static timer_t timer;
static void (*flush)(void); /* found once: in the child of a fork dlsym may wait for a lock that another thread held */

static void arm(void) {
  struct itimerspec once = {.it_value = {.tv_nsec = INTERVAL_NS}};
  timer_settime(timer, 0, &once, NULL);
}

static void on_signal(int number) {
  (void)number;
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    is_child = 1;
    return;
  }
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) != child) {
  }
  if (child < 0 || status != 0) {
    static const char text[] = "fork_in_handler: a child did not end as it should\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
  }
  atomic_fetch_add(&forks, 1);
  arm();
}

typedef struct {
  char *block[TABLE];
  size_t bytes[TABLE];
  Prng prng;
} Table;

static size_t some_bytes(Prng *prng) {
  uint32_t kind = prng_below(prng, 16);
  return kind < 10 ? 1 + prng_below(prng, 1024)
                   : 1 + prng_below(prng, kind < 13   ? 32 << 10
                                          : kind < 15 ? 300 << 10
                                                      : 3 << 20);
}

static void step(Table *table) {
  size_t i = prng_below(&table->prng, TABLE);
  if (table->block[i]) {
    CHECK(table->block[i][0] == (char)i && table->block[i][table->bytes[i] - 1] == (char)i);
    hak_free(table->block[i]);
  }
  size_t bytes = table->bytes[i] = some_bytes(&table->prng);
  table->block[i] = hak_malloc(bytes);
  CHECK(table->block[i] != NULL);
  table->block[i][0] = table->block[i][bytes - 1] = (char)i;
  if (prng_below(&table->prng, 64) == 0) {
    flush();
  }
}

static sigset_t block_signals(void) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  return before;
}

static void end_child(Table *table) {
  for (int i = 0; i < CHILD_STEPS; i++) {
    step(table);
  }
  _exit(0);
}

static void *allocate(void *argument) {
  Table *table = argument;
  while (!is_child && !atomic_load(&stop)) {
    step(table);
  }
  block_signals();
  if (is_child) {
    end_child(table);
  }
  return NULL;
}

static void start_threads(pthread_t *threads, Table *tables, int count, bool everywhere) {
  sigset_t before = block_signals();
  if (everywhere) { /* else the handler runs on the main thread */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  for (int i = 0; i < count; i++) {
    tables[i].prng = prng_seeded(100 + (uint64_t)i);
    CHECK(pthread_create(&threads[i], NULL, allocate, &tables[i]) == 0);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int main(int count, char **arguments) {
  static Table mine, tables[THREADS_MAX];
  pthread_t threads[THREADS_MAX] = {0};
  CHECK(count == 2 || (count == 3 && strcmp(arguments[2], "everywhere") == 0));
  int others = atoi(arguments[1]);
  CHECK(others <= THREADS_MAX);
  trap_watchdog(60); /* for a second's work: other programs may use the processors */
  flush = HAK(hak_thread_flush);
  mine.prng = prng_seeded(1);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  start_threads(threads, tables, others, count == 3);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  arm();
  int most = count == 3 ? FORKS_EVERYWHERE : FORKS;
  for (int steps = 0; !is_child && atomic_load(&forks) < most; steps++) {
    step(&mine);
    if (count == 3 && steps % STEPS_PER_SIGNAL == 0) {
      pthread_kill(threads[steps / STEPS_PER_SIGNAL % others], SIGUSR1);
    }
  }
  block_signals();
  if (is_child) {
    end_child(&mine);
  }
  atomic_store(&stop, true);
  for (int i = 0; i < others; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  return 0;
}
