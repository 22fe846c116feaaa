// strained WHAT [NUMBER or PATH]: a program that is hard to record. It prints "done" if it reaches its end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *volatile kept[1000];

static void say(const char *line) {
  if (write(1, line, strlen(line)) < 0)
    _exit(1);
}

static pthread_barrier_t all_there;

static void *live(void *unused) {
  void *volatile block = malloc(20600);
  pthread_barrier_wait(&all_there);
  free(block);
  return unused;
}

// More threads at once than there are buffers.
static void crowd(const char *number) {
  unsigned count = (unsigned)atoi(number);
  pthread_t *threads = calloc(count, sizeof *threads);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 32768);
  pthread_barrier_init(&all_there, NULL, count);
  for (unsigned i = 0; i < count; i++)
    if (pthread_create(&threads[i], &small, live, NULL) != 0)
      abort();
  for (unsigned i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
}

static void leave(int number) {
  (void)number;
  _exit(7);
}

// Allocates in a signal handler on a stack of the usual 8 KiB, with guard pages around it.
static void small_stack(const char *unused) {
  (void)unused;
  enum { BYTES = 8192, PAGE = 4096 };
  char *place = mmap(NULL, BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED || mprotect(place + PAGE, BYTES, PROT_READ | PROT_WRITE) != 0)
    abort();
  stack_t stack = {.ss_sp = place + PAGE, .ss_size = BYTES};
  struct sigaction action = {.sa_handler = leave, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
    abort();
  kept[0] = malloc(300000);
  raise(SIGUSR1);
}

// A child with no address space left for further mappings.
static void little_room(const char *unused) {
  (void)unused;
  for (int i = 0; i < 10; i++)
    free(malloc(30100));
  struct rlimit room = {100 << 20, 100 << 20};
  if (setrlimit(RLIMIT_AS, &room) != 0)
    abort();
  if (fork() == 0) {
    for (int i = 0; i < 1000; i++)
      free(malloc(30101));
    _exit(0);
  }
  wait(NULL);
}

static void holds(const char *unused) {
  (void)unused;
  for (int i = 0; i < 20; i++) {
    void *block = malloc(30300);
    usleep(20000);
    free(block);
  }
}

// Children that begin only after all of them have been forked, with the blocks that they inherit.
static void late_children(const char *number) {
  for (int i = 0; i < 100; i++)
    kept[i] = malloc(30200 + (size_t)i);
  for (int i = 0; i < atoi(number); i++)
    if (fork() == 0) {
      usleep(400000);
      for (int at = 0; at < 100; at++)
        free(kept[at]);
      exit(0);
    }
  while (wait(NULL) > 0)
    continue;
}

static void children(const char *number) {
  for (int i = 0; i < atoi(number); i++) {
    if (fork() == 0) {
      free(malloc(30300));
      _exit(0);
    }
    wait(NULL);
  }
}

static volatile sig_atomic_t unload;

static void on_unload(int number) {
  (void)number;
  unload = 1;
}

// Calls a library until a signal makes it unload the library, then continues without it.
static void unloads(const char *path) {
  signal(SIGUSR1, on_unload);
  void *library = dlopen(path, RTLD_LAZY);
  void *(*make)(void) = NULL;
  if (library != NULL)
    *(void **)&make = dlsym(library, "make");
  if (make == NULL)
    abort();
  say("going\n");
  while (!unload) {
    free(make());
    usleep(100);
  }
  dlclose(library);
  say("unloaded\n");
  for (;;) {
    free(malloc(30400));
    usleep(100);
  }
}

// Random sizes that cannot be compressed: 4 bytes for each allocation.
static void incompressible(const char *number) {
  uint64_t random = 1;
  for (int i = 0; i < atoi(number); i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    free(kept[random >> 40 & 511]);
    kept[random >> 40 & 511] = malloc((random >> 33) % 100000);
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void work(double seconds) {
  unsigned random = 1;
  for (double end = now() + seconds; now() < end;)
    for (int i = 0; i < 1000; i++) {
      random = random * 1103515245 + 12345;
      free(kept[random % 1000]);
      kept[random % 1000] = malloc(16 + (random >> 20));
    }
}

// One process works while another starts programs; prints how many starts took more than 5 s.
static void starts(const char *seconds) {
  double until = now() + atof(seconds);
  if (fork() == 0) {
    work(atof(seconds));
    _exit(0);
  }
  int slow = 0;
  while (now() < until) {
    double began = now();
    pid_t child = fork();
    if (child == 0) {
      execl("/bin/true", "true", NULL);
      _exit(1);
    }
    waitpid(child, NULL, 0);
    slow += now() - began > 5;
  }
  printf("%d slow starts\n", slow);
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*run)(const char *);
  } table[] = {
      {"crowd", crowd},  {"small_stack", small_stack}, {"little_room", little_room}, {"late_children", late_children},
      {"holds", holds},  {"children", children},       {"random", incompressible},   {"unloads", unloads},
      {"starts", starts}};
  for (size_t i = 0; count > 1 && i < sizeof table / sizeof *table; i++)
    if (strcmp(words[1], table[i].name) == 0) {
      table[i].run(count > 2 ? words[2] : "0");
      puts("done");
      return 0;
    }
  return 1;
}
