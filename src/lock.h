/* Duty: the one kind of lock: a futex word that holds its owner, so that a thread which forks in a signal handler can
 * tell which locks it holds itself.
 * Data: hak_lock_passes and hak_lock_id belong to the calling thread. Layers below: os.
 *
 *   word   0: free    id: held by that thread    id | WAITERS: held, and somebody sleeps
 *
 * Who may wait for what: docs/invariants.md. Between the handlers of a fork, which takes all locks, other libraries'
 * may allocate: hak_lock_passes makes the forking thread's own lock operations do nothing there. */
#ifndef HAK_LOCK_H /* tests/protocol defines it, and locks of its own */
#define HAK_LOCK_H

#include "os.h"

typedef struct hak_lock {
  _Atomic uint32_t word;
  bool kept; /* by the thread inside fork(): it held the lock before */
} hak_lock_t;

#define HAK_LOCK_INIT \
  { 0, false }
#define HAK_LOCK_WAITERS ((uint32_t)1 << 31)

extern _Thread_local bool hak_lock_passes __attribute__((tls_model("initial-exec")));
/* Of this thread, also in the child of its fork; 0 before it first took a lock. */
extern _Thread_local uint32_t hak_lock_id __attribute__((tls_model("initial-exec")));

uint32_t hak_lock_make_id(void);
HAK_COLD void hak_lock_wait(hak_lock_t *lock, uint32_t self);

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
    hak_os_wake(&lock->word);
  }
}

/* False: another thread holds it, or this one, in the code that a signal handler interrupted. */
bool hak_lock_try(hak_lock_t *lock);

/* How often a thread waited, by how long: below 1 us, 10 us, ... 10 ms, longer. */
enum { HAK_LOCK_WAIT_COUNTS = 6 };
void hak_lock_read_waits(uint64_t counts[HAK_LOCK_WAIT_COUNTS]);

bool hak_lock_is_mine(const hak_lock_t *lock);
/* Before a fork: take the lock unless this thread holds it already. `holds_some`: of any of ours. Such a thread gives
 * up after a while: another may do the same. */
void hak_lock_before_fork(hak_lock_t *lock, bool holds_some);
/* After it, in either process: as it was before. In the child the threads that waited are gone. */
void hak_lock_after_fork(hak_lock_t *lock, bool in_child);

#endif
