/* The lock: excludes, lets the thread inside fork() pass, and can be made new in a child. */
#include "lock.h"

#include <errno.h>
#include <pthread.h>

#include "check.h"
#include "child.h"

enum { THREADS = 3, ROUNDS = 2000 };

static hak_lock_t lock = HAK_LOCK_INIT;
static int counted;

static void *count(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    hak_lock(&lock);
    counted++;
    hak_unlock(&lock);
  }
  return NULL;
}

static void it_excludes(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, count, NULL) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(counted == THREADS * ROUNDS);
}

static bool is_held(void) {
  int error = pthread_mutex_trylock(&lock.mutex);
  CHECK(error == 0 || error == EBUSY);
  if (error == 0) {
    CHECK(pthread_mutex_unlock(&lock.mutex) == 0);
  }
  return error == EBUSY;
}

static void *must_not_pass(void *unused) {
  (void)unused;
  CHECK(!hak_lock_passes);
  CHECK(is_held());
  return NULL;
}

static void one_thread_may_pass(void) {
  CHECK(!hak_lock_passes && !is_held());
  hak_lock(&lock);
  hak_lock_passes = true;
  hak_lock(&lock); /* would wait for ever */
  hak_unlock(&lock);
  CHECK(is_held());
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, must_not_pass, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  hak_lock_passes = false;
  hak_unlock(&lock);
  CHECK(!is_held());
}

static void make_it_new(void) {
  hak_lock_reset(&lock);
  CHECK(!is_held());
  hak_lock(&lock);
  CHECK(is_held());
  hak_unlock(&lock);
}

static void a_child_makes_it_new(void) {
  hak_lock(&lock);
  child_succeeds(make_it_new);
  hak_unlock(&lock);
}

int main(void) {
  it_excludes();
  one_thread_may_pass();
  a_child_makes_it_new();
  return 0;
}
