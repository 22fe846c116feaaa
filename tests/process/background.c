/* HAKMEM_BACKGROUND: a sleeping process gives idle memory back, also in the child of a fork. The thread disturbs
 * neither signals, forks, setgid nor the end of the process. argument: on or off, as in the environment; auto: a
 * thread while the program has several; filtered: none once the program has set a filter; last: the first thread ends
 * before the others; intercepted: another library intercepts the start of threads, and allocates in each; real_time:
 * the program's threads have a real-time priority */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { BLOCKS = 64, BLOCK = 1 << 20, ROUNDS = 4, FORKS = 40, WAIT_S = 60, WORKERS = 2, CHURNS = 300 };
#ifdef __GLIBC__
enum { JOINS = 20, LEAVES = 10 };
#else
enum { JOINS = 20, LEAVES = 0 }; /* musl 1.2.3: pthread_exit of a forked child's first thread keeps a lock */
#endif
enum { SKIPPED = 77 };
#ifdef LARGE_TLS
static _Thread_local volatile char large[(size_t)1 << 18]; /* the C library takes it from the stack of a thread */
#endif
static const size_t peak_kib = (size_t)BLOCKS * BLOCK / 1024;

/* Memory that is faulted in twice stays resident. */
static void fill_and_free(size_t count, size_t bytes) {
  static char *block[BLOCKS];
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < count; i++) {
      block[i] = malloc(bytes);
      CHECK(block[i] != NULL);
      memset(block[i], 1, bytes);
    }
    for (size_t i = 0; i < count; i++) {
      free(block[i]);
    }
  }
}

static void learn(void) {
  fill_and_free(BLOCKS, BLOCK);
}

/* Blocks above 1 MiB take another path. */
static void use_huge_blocks(void) {
  fill_and_free(BLOCKS / 4, (size_t)4 * BLOCK);
}

static unsigned threads(void) {
  unsigned count = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (const struct dirent *entry; (entry = readdir(tasks));) {
    count += entry->d_name[0] != '.';
  }
  CHECK(closedir(tasks) == 0);
  return count;
}

/* False: the task has ended. */
static bool read_of(const char *task, const char *what, char *text, size_t bytes) {
  char name[300];
  CHECK(snprintf(name, sizeof name, "/proc/self/task/%s/%s", task, what) < (int)sizeof name);
  int file = open(name, O_RDONLY);
  ssize_t length = file >= 0 ? read(file, text, bytes - 1) : -1;
  CHECK(file < 0 || close(file) == 0);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

/* A signal that the thread's own instructions raise reaches the program's handler, or ends the process as usual. */
static void check_signals_of(const char *task) {
  char text[4096];
  const char *line = read_of(task, "status", text, sizeof text) ? strstr(text, "SigBlk:") : NULL;
  uint64_t blocked = line ? strtoull(line + strlen("SigBlk:"), NULL, 16) : 0;
  const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
  for (size_t i = 0; line && i < sizeof own / sizeof *own; i++) {
    CHECK((blocked >> (own[i] - 1) & 1) == 0);
  }
  CHECK(!line || (blocked >> (SIGUSR1 - 1) & 1) == 1);
}

static bool is_background(const char *task) {
  char text[17];
  bool found = read_of(task, "comm", text, sizeof text) && strcmp(text, "hakmem\n") == 0;
  if (found) {
    check_signals_of(task);
  }
  return found;
}

static bool has_background(void) {
  bool found = false;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (const struct dirent *entry; (entry = readdir(tasks));) {
    found = found || (entry->d_name[0] != '.' && is_background(entry->d_name));
  }
  CHECK(closedir(tasks) == 0);
  return found;
}

typedef struct start {
  void *(*work)(void *);
  void *argument;
} start_t;

static bool intercepts;

static void *begin(void *allocated) {
  start_t start = *(start_t *)allocated;
  free(allocated);
  free(malloc(100));
  void *result = start.work(start.argument);
  free(malloc(100));
  return result;
}

/* As a profiler does; the library's own thread comes here, too. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
  int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
  *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
  start_t *start = intercepts ? malloc(sizeof *start) : NULL;
  if (!start) {
    return next(thread, attributes, work, argument);
  }
  *start = (start_t){work, argument};
  return next(thread, attributes, begin, start);
}

static void nap_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&time, &time) != 0) { /* setgid interrupts it in other threads */
    CHECK(errno == EINTR);
  }
}

/* Memory is given back although the program does not call the allocator. */
static void falls_asleep(void) {
  int naps = WAIT_S * 100;
  for (; check_rss_kib() > peak_kib / 4 && naps > 0; naps--) {
    nap_ms(10);
  }
  CHECK(naps > 0);
}

static volatile sig_atomic_t handled_by;

static void handle(int signal) {
  (void)signal;
  handled_by = gettid();
}

/* A signal to the process is handled by a thread of the program. */
static void signals_pass_it_by(void) {
  CHECK(signal(SIGUSR1, handle) != SIG_ERR);
  for (int i = 0; i < 100; i++) {
    handled_by = 0;
    CHECK(kill(getpid(), SIGUSR1) == 0);
    while (handled_by == 0) {
      nap_ms(1);
    }
    CHECK(handled_by == getpid());
  }
}

static void forks_beside_it(void) {
  for (int i = 0; i < FORKS; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      void *block = malloc((size_t)3 << 20);
      CHECK(block != NULL);
      memset(block, 1, (size_t)3 << 20);
      free(block);
      _exit(0);
    }
    check_child(child);
  }
}

/* The child does not count its threads: counting would allocate, and so start the background thread. */
static void in_child(void (*body)(void)) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    body();
    falls_asleep();
    exit(0);
  }
  check_child(child);
}

/* The child of a program with several threads has one. */
static void alone_in_child(void) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    for (int i = 0; i < 4; i++) {
      learn();
      nap_ms(100);
      CHECK(threads() == 1);
    }
    exit(0);
  }
  check_child(child);
}

static void *end_later(void *unused) {
  nap_ms(300);
  return unused;
}

static void wait_for_threads(unsigned count) {
  int naps = WAIT_S * 100;
  for (; threads() != count && naps > 0; naps--) {
    nap_ms(10);
  }
  CHECK(naps > 0);
}

/* A worker uses memory once, which gives it a cache, and then while `works` is set. Its blocks pass the caches by. */
static _Atomic bool works, ends;

static void *worker(void *unused) {
  sigset_t signals;
  CHECK(sigfillset(&signals) == 0 && pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
  free(malloc(100));
  while (!ends) {
    if (works) {
      char *block = malloc((size_t)4 * BLOCK);
      CHECK(block != NULL);
      block[0] = 1;
      free(block);
    }
    nap_ms(1);
  }
  return unused;
}

static pthread_t workers[WORKERS];

static void start_workers(void) {
  ends = false;
  for (int i = 0; i < WORKERS; i++) {
    CHECK(pthread_create(&workers[i], NULL, worker, NULL) == 0);
  }
}

static void end_workers(void) {
  ends = true;
  for (int i = 0; i < WORKERS; i++) {
    CHECK(pthread_join(workers[i], NULL) == 0);
  }
}

/* The program may rely on a process with one thread as soon as it has joined the others. */
static void gone_when_joined(void) {
  for (int i = 0; i < JOINS; i++) {
    start_workers();
    works = true;
    for (int naps = WAIT_S * 100; !has_background(); naps--) {
      CHECK(naps > 0);
      nap_ms(10);
    }
    end_workers();
    CHECK(!has_background());
  }
}

static void check_not_in_background(void) {
  char name[16] = "";
  CHECK(prctl(PR_GET_NAME, name) == 0);
  CHECK(strcmp(name, "hakmem") != 0);
}

/* All threads end at once. The last one runs the handlers of exit, and needs a whole stack for them. */
static void leave_together(void) {
  for (int i = 0; i < LEAVES; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      CHECK(atexit(check_not_in_background) == 0);
      start_workers();
      works = true;
      nap_ms(300);
      ends = true;
      pthread_exit(NULL);
    }
    check_child(child);
  }
}

/* Libc knows the parent's threads there, and none of the child's. */
static void vfork_starts_none(void) {
  pid_t child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
  CHECK(child >= 0);
  if (child == 0) {
    learn(); /* NOLINT(clang-analyzer-unix.Vfork) */
    _exit(threads() == 1 ? 0 : 1);
  }
  check_child(child);
}

static void *churn(void *unused) {
  char *block = malloc(BLOCK / 16);
  CHECK(block != NULL);
  memset(block, 1, BLOCK / 16);
  free(block);
  return unused;
}

/* Starts and ends of the background thread meet those of the program's threads. */
static void churn_threads(void) {
  for (int i = 0; i < CHURNS; i++) {
    pthread_t several[WORKERS];
    for (int j = 0; j < WORKERS; j++) {
      CHECK(pthread_create(&several[j], NULL, churn, NULL) == 0);
    }
    nap_ms(i % 3);
    free(churn(malloc(100)));
    for (int j = 0; j < WORKERS; j++) {
      CHECK(pthread_join(several[j], NULL) == 0);
    }
  }
  wait_for_threads(1);
}

static void one_while_there_are_several(void) {
  CHECK(threads() == 1);
  start_workers();
  nap_ms(300); /* longer than the program must have several threads first */
  vfork_starts_none();
  works = true;
  wait_for_threads(1 + WORKERS + 1);
  works = false;
  learn();
  falls_asleep();
  nap_ms(2000); /* the thread sleeps without a limit by now */
  learn();
  falls_asleep();
  alone_in_child();
  signals_pass_it_by();
  CHECK(setgid(getgid()) == 0); /* libc sends a signal of its own to every thread, and waits */
  forks_beside_it();
  end_workers();
  wait_for_threads(1);
  churn_threads();
  gone_when_joined();
  leave_together();
  start_workers();
  works = true;
  wait_for_threads(1 + WORKERS + 1);
}

/* A thread of the library's own would inherit the priority. */
static void none_in_real_time(void) {
  const struct sched_param priority = {.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
    exit(SKIPPED);
  }
  start_workers();
  works = true;
  nap_ms(600);
  learn();
  CHECK(threads() == 1 + WORKERS);
  end_workers();
}

static void none_under_a_filter(void) {
  struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &all};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  works = true;
  start_workers();
  nap_ms(600);
  learn();
  CHECK(threads() == 1 + WORKERS);
  end_workers();
}

/* The process ends with the last thread of the program. */
static void outlive_the_first_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, end_later, NULL) == 0 && pthread_detach(thread) == 0);
  pthread_exit(NULL);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  check_served();
  learn();
  if (strcmp(arguments[1], "last") == 0) {
    outlive_the_first_thread();
  }
  if (strcmp(arguments[1], "filtered") == 0) {
    none_under_a_filter();
    return 0;
  }
  if (strcmp(arguments[1], "intercepted") == 0) {
    intercepts = true;
    gone_when_joined();
    return 0;
  }
  if (strcmp(arguments[1], "real_time") == 0) {
    none_in_real_time();
    return 0;
  }
  if (strcmp(arguments[1], "auto") == 0) {
    one_while_there_are_several();
    return 0;
  }
  if (strcmp(arguments[1], "off") == 0) {
    start_workers();
    works = true;
    nap_ms(600);
    CHECK(threads() == 1 + WORKERS);
    end_workers();
    return 0;
  }
  CHECK(threads() == 2);
  falls_asleep();
  signals_pass_it_by();
  CHECK(setgid(getgid()) == 0); /* libc sends a signal of its own to every thread, and waits */
  forks_beside_it();
  in_child(learn);
  in_child(use_huge_blocks);
  return 0;
}
