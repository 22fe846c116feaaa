/* Duty: the one kind of lock: a futex word that holds its owner, so that a thread which forks in a signal handler can
 * tell which locks it holds itself.
 * Data: hak_lock_passes and hak_lock_id belong to the calling thread. Layers below: os.
 *
 *   word   0: free    id: held by that thread    id | WAITERS: held, and somebody sleeps
 *
 * Who may wait for what: docs/invariants.md. A fork takes all locks, and its thread may allocate or fork again before
 * it gives them back: hak_lock_passes makes its own lock operations do nothing there. */
#ifndef HAK_LOCK_H /* tests/protocol defines it, and locks of its own */
#define HAK_LOCK_H

#include "os.h"

typedef struct hak_lock {
  _Atomic uint32_t word;
  _Atomic uint8_t fork; /* what its owner's has to do with it */
} hak_lock_t;

#define HAK_LOCK_INIT \
  { 0, false }
#define HAK_LOCK_WAITERS ((uint32_t)1 << 31)

/* Forks under way in this thread: one in another's handler is no more than counted. */
extern _Thread_local uint8_t hak_lock_passes __attribute__((tls_model("initial-exec")));
/* Of this thread, also in the child of its fork; 0 before it first took a lock. */
extern _Thread_local uint32_t hak_lock_id __attribute__((tls_model("initial-exec")));

/* How long this thread waited for locks since it last asked, and made it 0. */
extern _Thread_local uint64_t hak_lock_waited_ns __attribute__((tls_model("initial-exec")));

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

/* A number that is written under the lock. */
HAK_INLINE size_t hak_lock_read(hak_lock_t *lock, const size_t *number) {
  hak_lock(lock);
  size_t value = *number;
  hak_unlock(lock);
  return value;
}

/* False: another thread holds it, or this one, in the code that a signal handler interrupted. */
bool hak_lock_try(hak_lock_t *lock);

/* How often a thread waited, by how long: below 1 us, 10 us, ... 10 ms, longer. */
enum { HAK_LOCK_WAIT_COUNTS = 6 };
void hak_lock_read_waits(uint64_t counts[HAK_LOCK_WAIT_COUNTS]);

/* A fork takes a lock unless its thread has it already, which means that it forks in a signal handler, and that what it
 * interrupted goes on only afterwards: such a lock is stuck, and another fork does not wait for it. */
enum { HAK_LOCK_TAKEN = 1, HAK_LOCK_STUCK };

bool hak_lock_is_mine(const hak_lock_t *lock);
/* A fork begins: whether this thread has the lock, which is stuck then. */
bool hak_lock_note_fork(hak_lock_t *lock);
/* False: it is not to be had, being another's and stuck. */
bool hak_lock_before_fork(hak_lock_t *lock);
/* After it, in either process: as it was before. In the child the threads that waited are gone. */
void hak_lock_after_fork(hak_lock_t *lock, bool in_child);

#endif
