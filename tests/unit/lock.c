/* The lock: it excludes, wakes waiting threads, counts the waits, and has the same state after a fork as before. */
#include "system/lock.h"

#include <pthread.h>

#include "check.h"
#include "child.h"
#include "system.h"
#include "system/os.h"

enum { THREADS = 4, ROUNDS = 2000 };

static hak_lock_t lock = HAK_LOCK_INIT;
static int counted;
static uint32_t held_word; /* the lock's word while it was held */

static bool is_free(void) {
  return atomic_load(&lock.word) == 0;
}

static pthread_t start(void *(*body)(void *)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
  return thread;
}

static void join(pthread_t thread) {
  CHECK(pthread_join(thread, NULL) == 0);
}

static void *count(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    hak_lock(&lock);
    counted++;
    CHECK(hak_lock_is_mine(&lock));
    if (i % 16 == 0) {
      hak_os_yield(); /* longer than a waiter spins */
    }
    hak_unlock(&lock);
  }
  return NULL;
}

static void it_excludes(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    threads[i] = start(count);
  }
  for (int i = 0; i < THREADS; i++) {
    join(threads[i]);
  }
  CHECK(counted == THREADS * ROUNDS && is_free());
}

static void *is_of_another(void *unused) {
  (void)unused;
  CHECK(!hak_lock_is_mine(&lock));
  CHECK(hak_lock_make_id() == hak_lock_id && hak_lock_id != 0);
  CHECK(!hak_lock_is_mine(&lock));
  return (void *)(uintptr_t)hak_lock_id; /* NOLINT(performance-no-int-to-ptr) */
}

static void the_owner_is_known(void) {
  CHECK(!hak_lock_is_mine(&lock));
  hak_lock(&lock);
  CHECK(hak_lock_id != 0 && (hak_lock_id & HAK_LOCK_WAITERS) == 0);
  CHECK(hak_lock_is_mine(&lock) && atomic_load(&lock.word) == hak_lock_id);
  void *other;
  CHECK(pthread_join(start(is_of_another), &other) == 0);
  CHECK((uint32_t)(uintptr_t)other != hak_lock_id);
  atomic_fetch_or(&lock.word, HAK_LOCK_WAITERS);
  CHECK(hak_lock_is_mine(&lock));
  hak_unlock(&lock);
  CHECK(!hak_lock_is_mine(&lock) && is_free());
}

static void *take_once(void *unused) {
  (void)unused;
  hak_lock(&lock);
  counted++;
  held_word = atomic_load(&lock.word);
  hak_unlock(&lock);
  return NULL;
}

static void until_somebody_sleeps(void) {
  while (!(atomic_load(&lock.word) & HAK_LOCK_WAITERS)) {
    hak_os_yield();
  }
}

/* Each woken thread takes the lock in a state that says that others may wait, and later wakes the next. */
static void all_who_sleep_are_woken(void) {
  pthread_t threads[THREADS];
  for (int round = 0; round < 20; round++) {
    counted = 0;
    hak_lock(&lock);
    for (int i = 0; i < THREADS; i++) {
      threads[i] = start(take_once);
    }
    until_somebody_sleeps();
    CHECK(counted == 0);
    hak_unlock(&lock);
    for (int i = 0; i < THREADS; i++) {
      join(threads[i]);
    }
    CHECK(counted == THREADS && is_free());
  }
}

/* A woken thread may run a signal handler instead of going on, so that others miss a wake-up. */
static void a_lost_wake_up_is_done_without(void) {
  hak_lock(&lock);
  pthread_t thread = start(take_once);
  until_somebody_sleeps();
  atomic_store(&lock.word, 0);
  join(thread);
}

static uint64_t sum(const uint64_t waits[HAK_LOCK_WAIT_COUNTS]) {
  uint64_t all = 0;
  for (int i = 0; i < HAK_LOCK_WAIT_COUNTS; i++) {
    all += waits[i];
  }
  return all;
}

static void a_wait_of(uint64_t ms, int expected) {
  uint64_t before[HAK_LOCK_WAIT_COUNTS], after[HAK_LOCK_WAIT_COUNTS];
  system_set_clock_ms(1000);
  hak_lock_read_waits(before);
  hak_lock(&lock);
  pthread_t thread = start(take_once);
  until_somebody_sleeps();
  system_advance_clock_ms(ms);
  hak_unlock(&lock);
  join(thread);
  hak_lock_read_waits(after);
  CHECK(after[expected] == before[expected] + 1 && sum(after) == sum(before) + 1);
  CHECK(held_word & HAK_LOCK_WAITERS); /* other threads may sleep as well */
}

static void waits_are_counted_by_their_length(void) {
  uint64_t waits[HAK_LOCK_WAIT_COUNTS];
  for (int i = 0; i < ROUNDS; i++) {
    hak_lock(&lock);
    hak_unlock(&lock);
  }
  hak_lock_read_waits(waits);
  CHECK(sum(waits) == 0);
  a_wait_of(0, 0);
  a_wait_of(1, 4);
  a_wait_of(9, 4);
  a_wait_of(10, 5);
  a_wait_of(5000, 5);
}

static void *must_not_pass(void *unused) {
  (void)unused;
  CHECK(!hak_lock_passes && !is_free() && !hak_lock_is_mine(&lock));
  return NULL;
}

/* Between the handlers of a fork, the forking thread's lock operations do nothing. */
static void one_thread_may_pass(void) {
  CHECK(!hak_lock_passes && is_free());
  hak_lock(&lock);
  hak_lock_passes = true;
  hak_lock(&lock); /* would otherwise wait for ever */
  hak_unlock(&lock);
  CHECK(hak_lock_is_mine(&lock));
  join(start(must_not_pass));
  hak_lock_passes = false;
  hak_unlock(&lock);
  CHECK(is_free());
}

static void after_in_child(void) {
  hak_lock_after_fork(&lock, true);
  CHECK(is_free());
  hak_lock(&lock);
  CHECK(hak_lock_is_mine(&lock));
  hak_unlock(&lock);
}

static void a_fork_takes_it_and_gives_it_back(void) {
  for (int round = 0; round < 2; round++) {
    hak_lock_before_fork(&lock);
    CHECK(hak_lock_is_mine(&lock) && lock.fork == HAK_LOCK_TAKEN);
    child_succeeds(after_in_child);
    hak_lock_after_fork(&lock, false);
    CHECK(is_free());
  }
}

static void go_on_in_child(void) {
  hak_lock_after_fork(&lock, true);
  CHECK(hak_lock_is_mine(&lock) && lock.fork == 0);
  hak_unlock(&lock);
  CHECK(is_free());
  a_fork_takes_it_and_gives_it_back();
}

/* A fork in a signal handler that interrupted a critical section: the section goes on in both processes. */
static void a_fork_under_the_lock_keeps_it(void) {
  hak_lock(&lock);
  CHECK(hak_lock_note_fork(&lock) && lock.fork == HAK_LOCK_STUCK);
  CHECK(hak_lock_before_fork(&lock));
  CHECK(hak_lock_is_mine(&lock));
  child_succeeds(go_on_in_child);
  hak_lock_after_fork(&lock, false);
  CHECK(hak_lock_is_mine(&lock) && lock.fork == 0);
  hak_unlock(&lock);
  a_fork_takes_it_and_gives_it_back();
}

static void a_fork_wakes_who_waits(void) {
  pthread_t thread;
  counted = 0;
  hak_lock_before_fork(&lock);
  thread = start(take_once);
  until_somebody_sleeps();
  child_succeeds(after_in_child); /* no thread waits in the child */
  CHECK(counted == 0);
  hak_lock_after_fork(&lock, false);
  join(thread);
  CHECK(counted == 1 && is_free());
}

static _Atomic int turn;

static void await_turn(int wanted) {
  while (atomic_load(&turn) != wanted) {
    hak_os_yield();
  }
}

/* Forks while it holds the lock for a long time. */
static void *fork_slowly(void *unused) {
  (void)unused;
  hak_lock(&lock);
  until_somebody_sleeps();
  CHECK(hak_lock_note_fork(&lock) && hak_lock_before_fork(&lock));
  await_turn(1);
  hak_lock_after_fork(&lock, false);
  CHECK(hak_lock_is_mine(&lock)); /* the interrupted section still holds it */
  hak_unlock(&lock);
  return NULL;
}

/* Not even a fork that waits already goes on waiting. */
static void a_fork_does_not_wait_for_what_is_stuck(void) {
  CHECK(!hak_lock_note_fork(&lock));
  pthread_t thread = start(fork_slowly);
  while (is_free()) {
    hak_os_yield();
  }
  CHECK(!hak_lock_before_fork(&lock));
  CHECK(!hak_lock_is_mine(&lock) && !is_free());
  child_succeeds(after_in_child); /* the lock's owner does not exist there */
  hak_lock_after_fork(&lock, false);
  CHECK(!is_free() && lock.fork == HAK_LOCK_STUCK);
  atomic_store(&turn, 1);
  join(thread);
  CHECK(is_free() && lock.fork == 0);
}

int main(void) {
  child_succeeds(the_owner_is_known);
  child_succeeds(it_excludes);
  child_succeeds(all_who_sleep_are_woken);
  child_succeeds(a_lost_wake_up_is_done_without);
  child_succeeds(waits_are_counted_by_their_length);
  child_succeeds(one_thread_may_pass);
  child_succeeds(a_fork_takes_it_and_gives_it_back);
  child_succeeds(a_fork_under_the_lock_keeps_it);
  child_succeeds(a_fork_wakes_who_waits);
  child_succeeds(a_fork_does_not_wait_for_what_is_stuck);
  return 0;
}
