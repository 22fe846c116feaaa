/* The lock: a futex word that holds its owner, so that a fork in a signal handler can identify the owner. */
#include "lock.h"

#include "os.h"

/* A sleeping thread costs the others a wake-up call, which takes longer than a critical section. */
enum {
  SPINS = 1000, /* pauses before sleeping, and again after waking */
  PAUSES = 32,  /* most pauses between two reads: frequent reads slow down the owner */
};

_Thread_local uint8_t hak_lock_passes __attribute__((tls_model("initial-exec")));
_Thread_local uint32_t hak_lock_id __attribute__((tls_model("initial-exec")));

uint32_t hak_lock_make_id(void) {
  static _Atomic uint32_t last;
  while (hak_lock_id == 0) {
    hak_lock_id = (atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1) & ~HAK_LOCK_WAITERS;
  }
  return hak_lock_id;
}

/* Reads the word before it tries to write, since a read leaves the cache line shared. */
static bool try_lock(hak_lock_t *lock, uint32_t value) {
  uint32_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
  return seen == 0 &&
         atomic_compare_exchange_strong_explicit(&lock->word, &seen, value, memory_order_acquire, memory_order_relaxed);
}

bool hak_lock_try(hak_lock_t *lock) {
  return try_lock(lock, hak_lock_make_id());
}

static _Atomic uint64_t waits[HAK_LOCK_WAIT_COUNTS];

void hak_lock_read_waits(uint64_t counts[HAK_LOCK_WAIT_COUNTS]) {
  for (int i = 0; i < HAK_LOCK_WAIT_COUNTS; i++) {
    counts[i] = atomic_load_explicit(&waits[i], memory_order_relaxed);
  }
}

static bool is(const hak_lock_t *lock, uint8_t fork) {
  return atomic_load_explicit(&lock->fork, memory_order_relaxed) == fork;
}

static void set(hak_lock_t *lock, uint8_t fork) {
  atomic_store_explicit(&lock->fork, fork, memory_order_relaxed);
}

static bool spin(hak_lock_t *lock, uint32_t value) {
  for (int spins = 0, pauses = 1; spins < SPINS; spins += pauses, pauses += pauses < PAUSES ? pauses : 0) {
    if (try_lock(lock, value)) {
      return true;
    }
    for (int i = 0; i < pauses; i++) {
      hak_pause();
    }
  }
  return false;
}

/* Wait for the lock, and take it. False: the lock is stuck, and a fork does not wait for it. */
static bool wait(hak_lock_t *lock, uint32_t self, bool for_fork) {
  if (spin(lock, self)) {
    return true;
  }
  while (!spin(lock, self | HAK_LOCK_WAITERS)) { /* other threads may sleep, too */
    if (for_fork && is(lock, HAK_LOCK_STUCK)) {
      return false;
    }
    uint32_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed), asleep = seen | HAK_LOCK_WAITERS;
    if (seen != 0 && (seen == asleep || atomic_compare_exchange_strong_explicit(
                                            &lock->word, &seen, asleep, memory_order_relaxed, memory_order_relaxed))) {
      hak_os_wait(&lock->word, asleep, HAK_OS_WAIT_MS);
    }
  }
  return true;
}

HAK_COLD void hak_lock_wait(hak_lock_t *lock, uint32_t self) {
  uint64_t since_ns = hak_os_now_ns();
  wait(lock, self, false);
  uint64_t waited_ns = hak_os_now_ns() - since_ns;
  int at = 0;
  for (uint64_t below_ns = 1000; waited_ns >= below_ns && at < HAK_LOCK_WAIT_COUNTS - 1; below_ns *= 10) {
    at++;
  }
  atomic_fetch_add_explicit(&waits[at], 1, memory_order_relaxed);
}

/* With many waiting threads, a wake-up takes longer than a critical section. */
HAK_COLD void hak_lock_wake(hak_lock_t *lock) {
  hak_os_wake(&lock->word);
}

bool hak_lock_is_mine(const hak_lock_t *lock) {
  uint32_t word = atomic_load_explicit(&lock->word, memory_order_relaxed) & ~HAK_LOCK_WAITERS;
  return word != 0 && word == hak_lock_id;
}

bool hak_lock_note_fork(hak_lock_t *lock) {
  bool mine = hak_lock_is_mine(lock);
  if (mine) {
    set(lock, HAK_LOCK_STUCK);
  }
  return mine;
}

bool hak_lock_before_fork(hak_lock_t *lock) {
  if (!hak_lock_is_mine(lock)) {
    if (!wait(lock, hak_lock_my_id(), true)) {
      return false;
    }
    set(lock, HAK_LOCK_TAKEN);
  }
  return true;
}

void hak_lock_after_fork(hak_lock_t *lock, bool in_child) {
  bool mine = hak_lock_is_mine(lock), stuck = is(lock, HAK_LOCK_STUCK);
  if (mine || in_child) { /* else it belongs to the owner, which may be forking as well */
    set(lock, 0);
  }
  if (in_child) {
    atomic_store_explicit(&lock->word, mine && stuck ? hak_lock_id : 0, memory_order_relaxed);
  } else if (mine && !stuck) {
    hak_unlock(lock);
  }
}
