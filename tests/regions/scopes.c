/* Scopes and ends of regions, with threads and forks. */
#include "check.h"
#include "hakmem.h"
#include "pattern.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 300, BLOCKS = 200, FORKS = 60 };

static hak_region_t *shared;
static _Atomic int stop;

static void nested(void) {
  hak_region_t *a = hak_region_new(&(hak_region_options_t){.name = "outer"}), *b = hak_region_new(NULL);
  CHECK(strcmp(hak_region_name(a), "outer") == 0);
  void *before = hak_malloc(100), *empty;
  CHECK(hak_region_enter(a));
  void *in_a = hak_malloc(100);
  CHECK(hak_region_enter(b));
  void *in_b = hak_calloc(3, 30000), *aligned = hak_aligned_alloc(4096, 10), *large = hak_malloc(5 << 20);
  hak_free(before);
  hak_free(in_a);
  empty = hak_malloc(0);
  CHECK(empty != NULL);
  before = hak_realloc(hak_malloc(10), 50000);
  hak_region_leave(b);
  void *again = hak_malloc(100);
  hak_region_leave(a);
  void *after = hak_malloc(100);
  CHECK(hak_region_of(in_b) == b && hak_region_of(aligned) == b && hak_region_of(large) == b);
  CHECK(hak_region_of(before) == b && hak_region_of(again) == a && hak_region_of(after) == NULL);
  hak_free(after);
  hak_free(empty);
  hak_region_destroy(a);
  hak_region_destroy(b);
}

static int free_it(void *block, size_t bytes, void *context) {
  CHECK(bytes > 0);
  ++*(int *)context;
  hak_free(block);
  return 0;
}

static int stop_at_once(void *block, size_t bytes, void *context) {
  (void)block, (void)bytes, (void)context;
  return 42;
}

static void walks(void) {
  hak_region_t *region = hak_region_new(NULL);
  int visited = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK(hak_region_malloc(region, i * 100) != NULL);
  }
  CHECK(hak_region_walk(region, stop_at_once, NULL) == 42);
  CHECK(hak_region_walk(region, free_it, &visited) == 0 && visited == BLOCKS);
  hak_region_retire(region); /* it is empty, so it ends */
  hak_region_usage_t usage;
  CHECK(!hak_region_usage(region, &usage));
}

/* The visitor frees blocks that the walk has not reached, and forks. */
typedef struct {
  void *large[4];
  int visited;
} Plan;

static int free_others(void *block, size_t bytes, void *context) {
  Plan *plan = context;
  plan->visited++;
  for (int i = 0; i < 4; i++) {
    if (plan->large[i] && plan->large[i] != block) {
      hak_free(plan->large[i]);
    }
    plan->large[i] = NULL;
  }
  CHECK(bytes > 0 && memset(block, 0x33, bytes) == block);
  return 0;
}

static int fork_inside(void *block, size_t bytes, void *context) {
  pid_t child = ++*(int *)context == 1 ? fork() : 1;
  int status = 0;
  CHECK(child == 0 || child == 1 || (waitpid(child, &status, 0) == child && status == 0));
  hak_free(block);
  return bytes > 0 && child > 1 ? 7 : 0;
}

static void walks_go_on(void) {
  hak_region_t *region = hak_region_new(NULL);
  Plan plan = {.visited = 0};
  for (int i = 0; i < 4; i++) {
    CHECK((plan.large[i] = hak_region_malloc(region, 100000)) != NULL);
  }
  CHECK(hak_region_walk(region, free_others, &plan) == 0 && plan.visited == 1);
  hak_region_reset(region);
  int visited = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK(hak_region_malloc(region, i * 500) != NULL);
  }
  pid_t here = getpid();
  int stopped = hak_region_walk(region, fork_inside, &visited);
  hak_region_retire(region); /* the child has freed all of it */
  hak_region_usage_t usage;
  if (getpid() != here) {
    _exit(visited == BLOCKS && !hak_region_usage(region, &usage) ? 0 : 1);
  }
  CHECK(stopped == 7 && visited == 1 && hak_region_usage(region, &usage));
  CHECK(hak_region_walk(region, free_it, &visited) == 0 && visited == BLOCKS);
  CHECK(!hak_region_usage(region, &usage)); /* it ended with the walk that freed its last block */
}

static void *in_scope(void *argument) {
  CHECK(hak_region_enter(argument));
  void *block = hak_malloc(1000);
  CHECK(hak_region_of(block) == argument);
  return block; /* the thread ends inside */
}

static void thread_ends_inside(void) {
  hak_region_t *region = hak_region_new(NULL);
  for (int i = 0; i < ROUNDS; i++) {
    pthread_t thread;
    void *block;
    CHECK(pthread_create(&thread, NULL, in_scope, region) == 0 && pthread_join(thread, &block) == 0);
    CHECK(hak_region_of(block) == region);
    hak_free(block);
  }
  hak_region_destroy(region); /* aborts if a thread counted as inside */
}

/* The heap's own destructor may have run before. */
static pthread_key_t first_key, last_key;

static void enters(void *region) {
  CHECK(hak_region_enter(region));
  void *block = hak_malloc(100);
  CHECK(hak_region_of(block) == region);
  hak_free(block);
}

static void *sets_data(void *region) {
  hak_free(hak_malloc(10));
  CHECK(pthread_setspecific(first_key, region) == 0 && pthread_setspecific(last_key, region) == 0);
  return NULL;
}

static void destructors_enter(void) {
  pthread_t thread;
  hak_region_t *region = hak_region_new(NULL);
  CHECK(pthread_key_create(&last_key, enters) == 0);
  CHECK(pthread_create(&thread, NULL, sets_data, region) == 0 && pthread_join(thread, NULL) == 0);
  hak_region_destroy(region);
}

/* Each thread fills the shared region and one of its own, and frees what others left. */
static _Atomic(void *) exchange[BLOCKS];

static void *busy(void *argument) {
  unsigned seed = (unsigned)(size_t)argument;
  for (int round = 0; !stop; round++) { /* in a child, a sanitizer reports threads that ended before */
    hak_region_t *own = hak_region_new(NULL);
    for (size_t i = 0; i < BLOCKS; i++) {
      seed = seed * 1103515245 + 12345;
      size_t bytes = seed / 7 % (seed % 50 == 0 ? 60000 : 300) + 8;
      void *block = hak_region_malloc(i % 2 ? shared : own, bytes), *other = NULL;
      memset(block, 0x55, bytes);
      if (i % 2) {
        other = atomic_exchange(&exchange[i], block);
        hak_free(other);
      }
    }
    hak_region_t *handed = hak_region_new(&(hak_region_options_t){.parent = own});
    CHECK(hak_region_malloc(handed, 100) != NULL);
    (round % 2 ? hak_region_destroy : hak_region_reset)(own);
    if (round % 2 == 0) {
      hak_region_destroy(own);
    }
  }
  return NULL;
}

static void child_works(hak_region_t *inside) {
  void *block = hak_malloc(500);
  CHECK(hak_region_of(block) == inside);
  hak_free(block);
  if (inside) {
    hak_region_leave(inside);
  }
  CHECK(hak_region_of(block = hak_malloc(500)) == NULL);
  hak_free(block);
  for (int i = 0; i < 100; i++) {
    hak_free(hak_region_malloc(shared, 100));
  }
  hak_region_destroy(shared); /* no other thread is inside any more */
  _exit(0);
}

static void forks_of_busy_threads(void) {
  pthread_t threads[THREADS];
  hak_region_t *mine = hak_region_new(NULL);
  shared = hak_region_new(&(hak_region_options_t){.name = "shared"});
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, busy, (void *)(i + 1)) == 0);
  }
  for (int i = 0; i < FORKS; i++) {
    if (i % 2) {
      CHECK(hak_region_enter(mine));
    }
    pid_t child = fork();
    if (child == 0) {
      child_works(i % 2 ? mine : NULL);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    if (i % 2) {
      hak_region_leave(mine);
    }
  }
  atomic_store(&stop, 1);
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  hak_check();
  hak_region_release(shared);
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(exchange[i]);
  }
  hak_region_destroy(mine);
  hak_check();
}

int main(void) {
  CHECK(pthread_key_create(&first_key, enters) == 0);
  nested();
  walks();
  walks_go_on();
  thread_ends_inside();
  destructors_enter();
  forks_of_busy_threads();
  return 0;
}
