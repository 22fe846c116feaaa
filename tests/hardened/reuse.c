/* How often a freed block is handed out again within a few requests, without another free: what ends a thread's cache
 * must not end the delay of its blocks.
 * arguments: case, bytes of a block, number of trials, most of them that may reuse the block */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { REQUESTS = 64, BESIDE = 4 /* blocks freed before the victim */ };

static size_t bytes;
static pthread_key_t key;

static void *make(void) {
  void *block = malloc(bytes);
  CHECK(block != NULL);
  memset(block, 'x', bytes);
  return block;
}

static void *in_thread(void *(*body)(void *argument), void *argument) {
  pthread_t thread;
  void *result;
  CHECK(pthread_create(&thread, NULL, body, argument) == 0 && pthread_join(thread, &result) == 0);
  return result;
}

static uintptr_t free_some(void *victim) {
  void *beside[BESIDE];
  for (int i = 0; i < BESIDE; i++) {
    beside[i] = make();
  }
  for (int i = 0; i < BESIDE; i++) {
    free(beside[i]);
  }
  uintptr_t address = (uintptr_t)victim;
  free(victim);
  return address;
}

/* A thread allocates a block, frees it, and ends. */
static void *use_and_end(void *unused) {
  (void)unused;
  return (void *)free_some(make());
}

/* The only call of a thread is the free of another's block. */
static void *free_and_end(void *victim) {
  free(victim);
  return NULL;
}

static uintptr_t thread_ends(void) {
  return (uintptr_t)in_thread(use_and_end, NULL);
}

static uintptr_t only_free(void) {
  void *victim = make();
  uintptr_t address = (uintptr_t)victim;
  in_thread(free_and_end, victim);
  return address;
}

/* A request that no memory can serve: nearly all of the address space. */
static uintptr_t request_fails(void) {
  uintptr_t victim = free_some(make());
  CHECK(malloc(((size_t)1 << 47) - (1 << 20)) == NULL && errno == ENOMEM);
  return victim;
}

/* It runs in the last rounds of destructors, after the library's own. */
static void destructor(void *victim) {
  static _Thread_local int rounds;
  if (++rounds < 3) {
    CHECK(pthread_setspecific(key, victim) == 0);
  } else {
    free(victim);
  }
}

static void *end_with_a_block(void *victim) {
  CHECK(pthread_setspecific(key, victim) == 0);
  free(make());
  return NULL;
}

static uintptr_t destructor_frees(void) {
  void *victim = make();
  uintptr_t address = (uintptr_t)victim;
  in_thread(end_with_a_block, victim);
  return address;
}

static bool is_reused(uintptr_t victim) {
  void *blocks[REQUESTS];
  bool reused = false;
  for (int i = 0; i < REQUESTS; i++) {
    blocks[i] = make();
    reused |= (uintptr_t)blocks[i] == victim;
  }
  for (int i = 0; i < REQUESTS; i++) {
    free(blocks[i]);
  }
  return reused;
}

int main(int count, char **arguments) {
  static const struct {
    const char *name;
    uintptr_t (*free_victim)(void);
  } cases[] = {{"thread_ends", thread_ends},
               {"only_free", only_free},
               {"request_fails", request_fails},
               {"destructor", destructor_frees}};
  CHECK(count == 5 && pthread_key_create(&key, destructor) == 0);
  bytes = strtoul(arguments[2], NULL, 10);
  unsigned trials = (unsigned)strtoul(arguments[3], NULL, 10), most = (unsigned)strtoul(arguments[4], NULL, 10);
  unsigned reused = 0, tried = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (; strcmp(cases[i].name, arguments[1]) == 0 && tried < trials; tried++) {
      reused += is_reused(cases[i].free_victim());
    }
  }
  printf("%s, %zu bytes: %u of %u reused\n", arguments[1], bytes, reused, tried);
  CHECK(tried == trials && reused <= most);
  return 0;
}
