/* fork() races the first allocation of a library that was loaded late. The threads exist before the library, so it
 * cannot have prepared its heap for them. Each round is a fresh child process.
 * arguments: the library, number of rounds */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 2, BLOCKS = 64 };

typedef void *(*malloc_function)(size_t);
typedef void (*free_function)(void *);

static malloc_function hak_malloc;
static free_function hak_free;
static _Atomic unsigned waiting;
static _Atomic bool gate;

static void allocate_some(void) {
  unsigned char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(i * 37 + 1);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], (int)i, i * 37 + 1);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i][0] == i && blocks[i][i * 37] == i);
    hak_free(blocks[i]);
  }
}

static void *race(void *argument) {
  (void)argument;
  atomic_fetch_add(&waiting, 1);
  while (!atomic_load(&gate))
    sched_yield();
  allocate_some();
  return NULL;
}

static void load(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  CHECK(handle != NULL);
  hak_malloc = (malloc_function)dlsym(handle, "hak_malloc");
  hak_free = (free_function)dlsym(handle, "hak_free");
  CHECK(hak_malloc != NULL);
  CHECK(hak_free != NULL);
}

static void round_main(const char *library) {
  pthread_t ids[THREADS];
  for (unsigned i = 0; i < THREADS; i++)
    CHECK(pthread_create(&ids[i], NULL, race, NULL) == 0);
  while (atomic_load(&waiting) != THREADS)
    sched_yield();
  load(library);
  atomic_store(&gate, true);
  pid_t child = fork();
  allocate_some();
  if (child == 0)
    exit(0);
  check_child(child);
  for (unsigned i = 0; i < THREADS; i++)
    CHECK(pthread_join(ids[i], NULL) == 0);
  exit(0);
}

int main(int count, char **arguments) {
  CHECK(count == 3);
  unsigned rounds = check_count(arguments[2]);
  for (unsigned i = 0; i < rounds; i++) {
    pid_t child = fork();
    if (child == 0)
      round_main(arguments[1]);
    check_child(child);
  }
  return 0;
}
