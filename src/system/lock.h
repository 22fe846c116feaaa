/* Duty: the one kind of lock. A lock is a futex word that holds its owner, so that a thread that forks in a signal
 * handler can find the locks that it holds itself. Data: hak_lock_passes and hak_lock_id belong to the calling thread.
 * Layers below: os.
 *
 *   word   0: free    id: held by that thread    id | WAITERS: held, and another thread sleeps
 *
 * src/invariants.md has the lock order. A fork takes all locks, and its thread may allocate or fork again before it
 * releases them. hak_lock_passes makes that thread's lock operations do nothing meanwhile. */
#ifndef HAK_LOCK_H /* tests/protocol defines it, with locks of its own */
#define HAK_LOCK_H

#include "os.h"

typedef struct hak_lock {
  _Atomic uint32_t word;
  _Atomic uint8_t fork; /* during a fork of the owner: HAK_LOCK_TAKEN or HAK_LOCK_STUCK; else 0 */
} hak_lock_t;

#define HAK_LOCK_INIT \
  { 0, false }
#define HAK_LOCK_WAITERS ((uint32_t)1 << 31)

/* Number of forks under way in this thread. A fork in a handler of another fork only increments it. */
extern _Thread_local uint8_t hak_lock_passes __attribute__((tls_model("initial-exec")));
/* Number of this thread, which it keeps in the child of its fork. 0 before it first takes a lock. */
extern _Thread_local uint32_t hak_lock_id __attribute__((tls_model("initial-exec")));

uint32_t hak_lock_make_id(void);
HAK_COLD void hak_lock_wait(hak_lock_t *lock, uint32_t self);
HAK_COLD void hak_lock_wake(hak_lock_t *lock);

HAK_INLINE uint32_t hak_lock_my_id(void) {
  return HAK_LIKELY(hak_lock_id != 0) ? hak_lock_id : hak_lock_make_id();
}
HAK_INLINE void hak_lock(hak_lock_t *lock) {
  if (HAK_UNLIKELY(hak_lock_passes)) {
    return;
  }
  uint32_t self = hak_lock_my_id(), seen = 0;
  hak_fork_fence(); /* a fork sees what the lock protects after its release, and the caller's earlier stores before */
  /* acquire: pairs with hak_unlock */
  if (HAK_UNLIKELY(!atomic_compare_exchange_strong_explicit(&lock->word, &seen, self, memory_order_acquire,
                                                            memory_order_relaxed))) {
    hak_lock_wait(lock, self);
  }
}
HAK_INLINE void hak_unlock(hak_lock_t *lock) {
  if (HAK_UNLIKELY(hak_lock_passes)) {
    return;
  }
  /* release: pairs with hak_lock */
  if (HAK_UNLIKELY(atomic_exchange_explicit(&lock->word, 0, memory_order_release) & HAK_LOCK_WAITERS)) {
    hak_lock_wake(lock);
  }
}

/* Read a number that is written under the lock. */
HAK_INLINE size_t hak_lock_read(hak_lock_t *lock, const size_t *number) {
  hak_lock(lock);
  size_t value = *number;
  hak_unlock(lock);
  return value;
}

/* False: another thread holds it, or this thread does, in code that a signal handler interrupted. */
bool hak_lock_try(hak_lock_t *lock);

/* How often threads waited, by duration: below 1 us, 10 us, ... 10 ms, and longer. */
enum { HAK_LOCK_WAIT_COUNTS = 6 };
void hak_lock_read_waits(uint64_t counts[HAK_LOCK_WAIT_COUNTS]);

/* A fork takes each lock that its thread does not hold. If the thread holds it, the fork runs in a signal handler, and
 * the interrupted code goes on only afterwards. That lock is stuck, and other forks do not wait for it. */
enum { HAK_LOCK_TAKEN = 1, HAK_LOCK_STUCK };

bool hak_lock_is_mine(const hak_lock_t *lock);
/* A fork begins. Returns whether this thread holds the lock, which is then stuck. */
bool hak_lock_note_fork(hak_lock_t *lock);
/* False: another thread holds the lock, and it is stuck. */
bool hak_lock_before_fork(hak_lock_t *lock);
/* After the fork, in either process: restore the lock. In the child the waiting threads are gone. */
void hak_lock_after_fork(hak_lock_t *lock, bool in_child);

#endif
