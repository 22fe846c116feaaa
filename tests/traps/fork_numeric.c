/* fork() in a program with a library that has threads of its own: Debian's OpenBLAS, which registers a fork handler
 * that ends them, or GCC's libgomp, which registers none. Both processes go on to allocate, while other threads
 * allocate too. arguments: openblas or gomp; with `preloaded` behind it, the library starts before the program does. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum { FORKS = 40, WORKERS = 2, TABLE = 64, SIDE = 96, TEAM = 4, ROW_MAJOR = 101, PLAIN = 111 };

typedef void (*Multiply)(int order, int first, int second, int m, int n, int k, double alpha, const double *a, int lda,
                         const double *b, int ldb, double beta, double *c, int ldc);
typedef void (*Parallel)(void (*work)(void *), void *data, unsigned threads, unsigned flags);

static Multiply multiply;
static Parallel parallel;
static atomic_bool stop;
static _Atomic uint64_t seeds;

static void allocate_some(uint64_t seed) {
  void *blocks[TABLE];
  Prng prng = prng_seeded(seed);
  for (size_t i = 0; i < TABLE; i++) {
    blocks[i] = hak_malloc((size_t)1 << prng_below(&prng, 22));
    CHECK(blocks[i] != NULL);
    *(char *)blocks[i] = 1;
  }
  for (size_t i = 0; i < TABLE; i++) {
    hak_free(blocks[i]);
  }
}

static void *allocate_until_stopped(void *unused) {
  (void)unused;
  while (!atomic_load(&stop)) {
    allocate_some(atomic_fetch_add(&seeds, 1));
  }
  return NULL;
}

static void allocate_in_team(void *unused) {
  (void)unused;
  allocate_some(atomic_fetch_add(&seeds, 1));
}

/* The library's threads multiply matrices of ones. */
static void use_openblas(void) {
  size_t bytes = sizeof(double) * SIDE * SIDE;
  double *a = hak_malloc(bytes), *c = hak_malloc(bytes);
  CHECK(a && c);
  for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) {
    a[i] = 1;
    c[i] = 0;
  }
  multiply(ROW_MAJOR, PLAIN, PLAIN, SIDE, SIDE, SIDE, 1, a, SIDE, a, SIDE, 0, c, SIDE);
  for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) {
    CHECK((int)c[i] == SIDE);
  }
  hak_free(a);
  hak_free(c);
}

static void use_gomp(void) {
  parallel(allocate_in_team, NULL, TEAM, 0);
}

static void child(bool openblas) {
  allocate_some(7);
  if (openblas) { /* libgomp's threads are gone in a child, and it starts no others */
    use_openblas();
  }
  _exit(0);
}

int main(int count, char **words) {
  bool openblas = count > 1 && strcmp(words[1], "openblas") == 0;
  const char *library = openblas ? "libopenblas.so.0" : "libgomp.so.1", *preloaded = getenv("LD_PRELOAD");
  if (count > 2) {
    char both[4096];
    CHECK(snprintf(both, sizeof both, "%s%s%s", preloaded ? preloaded : "", preloaded ? ":" : "", library) > 0);
    CHECK(setenv("LD_PRELOAD", both, 1) == 0);
    words[2] = NULL;
    execv("/proc/self/exe", words);
    CHECK(false);
  }
  trap_watchdog(60);
  void *found = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (!found) {
    trap_skip("the library is not installed");
  }
  multiply = (Multiply)dlsym(found, "cblas_dgemm");
  parallel = (Parallel)dlsym(found, "GOMP_parallel");
  void (*set_threads)(int) = (void (*)(int))dlsym(found, "openblas_set_num_threads");
  CHECK(openblas ? multiply && set_threads : parallel != NULL);
  if (openblas) {
    set_threads(TEAM);
  }
  pthread_t workers[WORKERS];
  for (size_t i = 0; i < WORKERS; i++) {
    CHECK(pthread_create(&workers[i], NULL, allocate_until_stopped, NULL) == 0);
  }
  for (int i = 0; i < FORKS; i++) {
    (openblas ? use_openblas : use_gomp)();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      child(openblas);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  }
  atomic_store(&stop, true);
  for (size_t i = 0; i < WORKERS; i++) {
    CHECK(pthread_join(workers[i], NULL) == 0);
  }
  return 0;
}
