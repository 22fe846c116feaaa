// recorded WHAT: a program to be recorded. Its blocks have sizes that nothing else in the process requests.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept[8192];

static void calls(void) {
  void *block = malloc(10001);
  block = realloc(block, 10002);
  free(block);
  block = calloc(3, 3334);
  block = reallocarray(block, 5, 2001);
  free(block);
  free(aligned_alloc(256, 10240));
  free(memalign(512, 10243));
  if (posix_memalign(&block, 1024, 10244) != 0)
    abort();
  free(block);
  free(valloc(10245));
  free(NULL);
  free(malloc(0));
  kept[0] = malloc(10006);
  kept[1] = malloc((size_t)3 << 20);
  memset(kept[1], 1, 1 << 20);
  free(kept[1]);
  errno = 0;
  kept[2] = malloc(PTRDIFF_MAX);
  volatile size_t much = SIZE_MAX / 2;
  kept[3] = reallocarray(kept[0], much, 4);
  if (kept[2] != NULL || kept[3] != NULL || errno != ENOMEM)
    abort();
  block = malloc(10007);
  if (realloc(block, 0) != NULL)
    abort();
}

static void *give(void *unused) {
  (void)unused;
  for (int i = 0; i < 100; i++)
    kept[i] = malloc(20000 + (size_t)i);
  return NULL;
}

static void *take(void *unused) {
  (void)unused;
  for (int i = 0; i < 100; i++)
    free(kept[i]);
  return NULL;
}

static void run_thread(void *(*what)(void *)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, what, NULL) != 0)
    abort();
  pthread_join(thread, NULL);
}

static void threads(void) {
  run_thread(give);
  run_thread(take);
}

static pthread_key_t key;

static void at_end(void *block) {
  free(block);
}

static void *with_destructor(void *unused) {
  (void)unused;
  pthread_setspecific(key, malloc(20500));
  return NULL;
}

// Threads that come and go, each with a block that a destructor frees.
static void churn(void) {
  pthread_key_create(&key, at_end);
  for (int i = 0; i < 5000; i++)
    run_thread(with_destructor);
}

static void forks(void) {
  kept[0] = malloc(30000);
  kept[1] = malloc(30001);
  pid_t child = fork();
  if (child == 0) {
    free(kept[0]);
    kept[2] = malloc(30002);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  free(kept[1]);
  free(malloc(30003));
}

// Forks by the bare system call, so that the C library does not notice.
static void bare_fork(void) {
  kept[0] = malloc(30000);
  long child = syscall(SYS_fork);
  for (int i = 0; i < 100; i++)
    free(malloc(child == 0 ? 30004 : 30005));
  if (child == 0)
    _exit(0);
  waitpid((pid_t)child, NULL, 0);
}

static void busy(unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    free(kept[i % 8192]);
    kept[i % 8192] = malloc(16 + i % 1000);
  }
}

// Becomes a daemon: a child of a child in a new session, without the parent's descriptors.
static void daemonize(void) {
  kept[0] = malloc(30000);
  if (fork() != 0)
    _exit(0);
  setsid();
  if (fork() != 0)
    _exit(0);
  for (int fd = 0; fd < 256; fd++)
    close(fd);
  usleep(300000);
  free(kept[0]);
  free(malloc(30006));
  exit(0);
}

static void on_signal(int number) {
  (void)number;
  static const char text[] = "heard\n";
  if (write(1, text, sizeof text - 1) < 0)
    _exit(1);
  exit(5);
}

static void wait_for_signal(void) {
  static const char text[] = "waiting\n";
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  kept[0] = malloc(30007);
  if (write(1, text, sizeof text - 1) < 0)
    _exit(1);
  for (;;)
    pause();
}

static void endless(void) {
  static const char text[] = "going\n";
  if (write(1, text, sizeof text - 1) < 0)
    _exit(1);
  for (unsigned i = 0;; i++) {
    busy(1000);
    usleep(100);
  }
}

static void lots(void) {
  busy(600000);
  if (write(1, "done\n", 5) < 0)
    _exit(1);
}

static void ends(const char *how) {
  busy(20000);
  kept[0] = malloc(31000);
  if (strcmp(how, "crash") == 0)
    raise(SIGSEGV);
  else if (strcmp(how, "kill") == 0)
    raise(SIGKILL);
  else if (strcmp(how, "abort") == 0)
    abort();
  else if (strcmp(how, "wild") == 0)
    free((char *)kept[0] + 1);
  else if (strcmp(how, "_exit") == 0)
    _exit(3);
  exit(4);
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*run)(void);
  } table[] = {{"calls", calls},     {"threads", threads},        {"churn", churn},
               {"forks", forks},     {"bare_fork", bare_fork},    {"daemon", daemonize},
               {"endless", endless}, {"signal", wait_for_signal}, {"lots", lots}};
  const char *what = count > 1 ? words[1] : "";
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(what, table[i].name) == 0) {
      table[i].run();
      return 0;
    }
  if (strcmp(what, "exec") == 0) {
    kept[0] = malloc(30008);
    execv(words[2], words + 2);
    return 1;
  }
  ends(what);
}
