/* The library is loaded late, into a program that uses the C library's malloc throughout. Only the hak_ functions of
 * the library are called. Threads exist before it is loaded, and end after it was closed.
 * argument: the library */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 3, BLOCKS = 300 };

static void *(*hak_malloc)(size_t);
static void *(*hak_realloc)(void *, size_t);
static void (*hak_free)(void *);
static size_t (*hak_usable_size)(const void *);
static pthread_barrier_t loaded, closed;

static void exercise(void) {
  unsigned char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t bytes = i * i + 1;
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL && hak_usable_size(blocks[i]) >= bytes);
    memset(blocks[i], (int)i, bytes);
    free(malloc(bytes));
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t bytes = i * i + 1;
    blocks[i] = hak_realloc(blocks[i], bytes * 2);
    CHECK(blocks[i] != NULL);
    CHECK(blocks[i][0] == (unsigned char)i && blocks[i][bytes - 1] == (unsigned char)i);
    hak_free(blocks[i]);
  }
}

static void *run(void *argument) {
  (void)argument;
  pthread_barrier_wait(&loaded);
  exercise();
  pthread_barrier_wait(&closed);
  pthread_barrier_wait(&closed);
  return NULL;
}

static void *load(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  CHECK(handle != NULL);
  hak_malloc = (void *(*)(size_t))dlsym(handle, "hak_malloc");
  hak_realloc = (void *(*)(void *, size_t))dlsym(handle, "hak_realloc");
  hak_free = (void (*)(void *))dlsym(handle, "hak_free");
  hak_usable_size = (size_t(*)(const void *))dlsym(handle, "hak_malloc_usable_size");
  CHECK(hak_malloc && hak_realloc && hak_free && hak_usable_size);
  CHECK(dlsym(RTLD_DEFAULT, "hak_malloc") == NULL);
  CHECK(dlsym(handle, "malloc") != (void *)malloc);
  return handle;
}

int main(int count, char **arguments) {
  pthread_t ids[THREADS];
  CHECK(count == 2);
  CHECK(pthread_barrier_init(&loaded, NULL, THREADS + 1) == 0);
  CHECK(pthread_barrier_init(&closed, NULL, THREADS + 1) == 0);
  for (unsigned i = 0; i < THREADS; i++)
    CHECK(pthread_create(&ids[i], NULL, run, NULL) == 0);
  void *handle = load(arguments[1]);
  pthread_barrier_wait(&loaded);
  exercise();
  pthread_barrier_wait(&closed);
  pid_t child = fork();
  if (child == 0) {
    exercise();
    exit(0);
  }
  check_child(child);
  CHECK(dlclose(handle) == 0);
  pthread_barrier_wait(&closed);
  for (unsigned i = 0; i < THREADS; i++)
    CHECK(pthread_join(ids[i], NULL) == 0);
  free(malloc(100));
  return 0;
}
