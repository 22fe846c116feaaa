/* A second copy of the library, under another file name, is loaded into a process that already uses the first.
 * Each copy must use only its own heap, in every scope mode, through thread ends, forks and dlclose.
 * arguments: the library, a directory for the copies */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "churn.h"

enum { BLOCKS = 512 };

struct copy {
  void *handle;
  void *(*malloc)(size_t);
  void (*free)(void *);
  void *(*hak_malloc)(size_t);
  void (*hak_free)(void *);
};

static void *symbol_of(const struct copy *copy, const char *name) {
  void *address = dlsym(copy->handle, name);
  CHECK(address != NULL);
  return address;
}

static void open_copy(struct copy *copy, const char *file, int mode) {
  copy->handle = dlopen(file, RTLD_NOW | mode);
  CHECK(copy->handle != NULL);
  copy->malloc = (void *(*)(size_t))symbol_of(copy, "malloc");
  copy->free = (void (*)(void *))symbol_of(copy, "free");
  copy->hak_malloc = (void *(*)(size_t))symbol_of(copy, "hak_malloc");
  copy->hak_free = (void (*)(void *))symbol_of(copy, "hak_free");
  CHECK(copy->malloc != malloc);
}

static struct churn_block filled(void *start, size_t bytes) {
  struct churn_block block = {start, bytes};
  CHECK(start != NULL);
  churn_block_fill(block);
  return block;
}

static void *exercise(void *argument) {
  const struct copy *copy = argument;
  struct churn_block blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t bytes = 1 + i * i % 70000;
    if (i % 3 == 0)
      blocks[i] = filled(malloc(bytes), bytes);
    if (i % 3 == 1)
      blocks[i] = filled(copy->malloc(bytes), bytes);
    if (i % 3 == 2)
      blocks[i] = filled(copy->hak_malloc(bytes), bytes);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    churn_block_verify(blocks[i]);
    if (i % 3 == 0)
      free(blocks[i].start);
    if (i % 3 == 1)
      copy->free(blocks[i].start);
    if (i % 3 == 2)
      copy->hak_free(blocks[i].start);
  }
  return NULL;
}

static void exercise_in_thread_and_child(struct copy *copy) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, exercise, copy) == 0);
  CHECK(pthread_join(id, NULL) == 0);
  pid_t child = fork();
  exercise(copy);
  if (child == 0)
    exit(0);
  check_child(child);
}

static pthread_barrier_t closing;

/* The thread ends after the copy was closed, and runs what the copy registered for the end of threads. */
static void *outlive(void *argument) {
  exercise(argument);
  pthread_barrier_wait(&closing);
  pthread_barrier_wait(&closing);
  free(malloc(1));
  return NULL;
}

static void close_under_a_thread(struct copy *copy) {
  pthread_t id;
  CHECK(pthread_barrier_init(&closing, NULL, 2) == 0);
  CHECK(pthread_create(&id, NULL, outlive, copy) == 0);
  pthread_barrier_wait(&closing);
  CHECK(dlclose(copy->handle) == 0);
  pthread_barrier_wait(&closing);
  CHECK(pthread_join(id, NULL) == 0);
  pid_t child = fork();
  if (child == 0)
    exit(0);
  check_child(child);
}

int main(int count, char **arguments) {
  static const int modes[] = {RTLD_LOCAL, RTLD_GLOBAL, RTLD_LOCAL | RTLD_DEEPBIND};
  CHECK(count == 3);
  check_served();
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    char file[4096];
    struct copy copy;
    CHECK(snprintf(file, sizeof file, "%s/second_%zu.so", arguments[2], i) < (int)sizeof file);
    check_copy_file(arguments[1], file);
    open_copy(&copy, file, modes[i]);
    exercise_in_thread_and_child(&copy);
    close_under_a_thread(&copy);
    CHECK(unlink(file) == 0);
  }
  return 0;
}
