/* fork() in a program whose handlers wait for threads that allocate. They are registered from .preinit_array, before
 * the allocator could register its own. The C library takes the locks of its heap after all handlers ran, and after the
 * lock of its list of streams; so must an allocator in its place. argument: one of the cases below */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum { FORKS = 60, WORKERS = 2, TABLE = 64, REGISTRATIONS = 60, NESTED_EVERY = 4 };

typedef struct {
  void (*prepare)(void), (*parent)(void), (*child)(void);
  void *(*work)(void *seed);
} Case;

static const Case *chosen;
static atomic_bool stop;
static pthread_t workers[WORKERS];

/* Allocates blocks of every size, so that the slow paths are taken as well. */
static void allocate_some(uint64_t seed) {
  void *blocks[TABLE];
  Prng prng = prng_seeded(seed);
  for (size_t i = 0; i < TABLE; i++) {
    size_t bytes = (size_t)1 << prng_below(&prng, 22);
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    *(char *)blocks[i] = 1;
  }
  for (size_t i = 0; i < TABLE; i++) {
    hak_free(blocks[i]);
  }
}

static void start_workers(void) {
  atomic_store(&stop, false);
  for (uintptr_t i = 0; i < WORKERS; i++) {
    CHECK(pthread_create(&workers[i], NULL, chosen->work, (void *)(i + 1)) == 0);
  }
}

static void end_workers(void) {
  atomic_store(&stop, true);
  for (size_t i = 0; i < WORKERS; i++) {
    CHECK(pthread_join(workers[i], NULL) == 0);
  }
}

/* join: the threads of the library end before a fork and are started again after it, in both processes. */
static void *allocate_until_stopped(void *seed) {
  uintptr_t i = (uintptr_t)seed;
  while (!atomic_load(&stop)) {
    allocate_some(i++);
  }
  allocate_some(i); /* also just before it ends */
  return NULL;
}

static void join_workers(void) {
  allocate_some(11);
  end_workers();
}

static void start_again(void) {
  allocate_some(12);
  start_workers();
}

/* mutex: threads allocate under a mutex, which the handlers hold over the fork. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *allocate_under_mutex(void *seed) {
  for (uintptr_t i = (uintptr_t)seed; !atomic_load(&stop); i++) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    allocate_some(i);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    sched_yield();
  }
  return NULL;
}

static void take_mutex(void) {
  CHECK(pthread_mutex_lock(&mutex) == 0);
  allocate_some(13);
}

static void give_mutex(void) {
  allocate_some(14);
  CHECK(pthread_mutex_unlock(&mutex) == 0);
}

/* stdio: one thread flushes all streams. So it holds the lock of their list while it waits for a stream whose owner
 * allocates. */
static FILE *stream;

static void *flush_all(void) {
  while (!atomic_load(&stop)) {
    fflush(NULL);
  }
  return NULL;
}

static void *use_stream(void *seed) {
  if ((uintptr_t)seed == 1) {
    return flush_all();
  }
  for (uintptr_t i = 0; !atomic_load(&stop); i++) {
    flockfile(stream);
    allocate_some(i);
    funlockfile(stream);
    sched_yield();
  }
  return NULL;
}

/* register: threads and handlers register more handlers meanwhile. Beyond 48, libc allocates their list. It must not
 * grow often, since libc may then read the old list. */
static void nothing(void) {}

static void *register_more(void *seed) {
  for (uintptr_t i = (uintptr_t)seed; !atomic_load(&stop); i++) {
    if (i < REGISTRATIONS) {
      CHECK(pthread_atfork(nothing, nothing, nothing) == 0);
    }
    allocate_some(i);
  }
  return NULL;
}

static void register_one(void) {
  CHECK(pthread_atfork(nothing, nothing, nothing) == 0);
  allocate_some(15);
}

/* nested: the handlers fork. */
static void fork_in_handler(void) {
  static int depth, calls;
  allocate_some(16);
  if (depth > 0 || calls++ % NESTED_EVERY != 0) {
    return;
  }
  depth++;
  pid_t child = fork();
  if (child == 0) {
    allocate_some(17);
    _exit(0);
  }
  depth--;
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

static const struct {
  const char *name;
  Case handlers;
} cases[] = {
    {"join", {join_workers, start_again, start_again, allocate_until_stopped}},
    {"mutex", {take_mutex, give_mutex, give_mutex, allocate_under_mutex}},
    {"stdio", {nothing, nothing, nothing, use_stream}},
    {"register_beside", {nothing, nothing, nothing, register_more}},
    {"register", {register_one, register_one, register_one, register_more}},
    {"nested", {fork_in_handler, fork_in_handler, fork_in_handler, allocate_until_stopped}},
};

static void prepare(void) {
  if (chosen) {
    chosen->prepare();
  }
}

static void in_parent(void) {
  if (chosen) {
    chosen->parent();
  }
}

static void in_child(void) {
  alarm(60); /* trap_watchdog would not see a hang here */
  if (chosen) {
    chosen->child();
  }
}

static void register_early(void) {
  pthread_atfork(prepare, in_parent, in_child);
}

__attribute__((section(HAK_TEST_EARLIEST), used)) static void (*const before_constructors)(void) = register_early;

static void fork_once(uint64_t number) {
  pid_t child = fork();
  if (child == 0) {
    allocate_some(number);
    _exit(0);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  const Case *wanted = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    wanted = strcmp(cases[i].name, arguments[1]) == 0 ? &cases[i].handlers : wanted;
  }
  CHECK(wanted != NULL);
  trap_watchdog(60); /* for a second's work: other programs may use the processors */
  CHECK((stream = fopen("/dev/null", "w")) != NULL);
  chosen = wanted;
  start_workers();
  for (uint64_t i = 0; i < FORKS; i++) {
    fork_once(i);
  }
  end_workers();
  return 0;
}
