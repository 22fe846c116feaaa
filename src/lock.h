/* Duty: the one kind of lock, a mutex that the thread inside fork() may pass.
 * Data: hak_lock_passes belongs to the calling thread. Layers below: base.
 *
 * Ranks, outermost first; a thread takes a lock only while it holds none of the same or an inner rank:
 *   heaps (list of thread heaps)  >  slab class[i]  >  arena  >  meta
 * The fork handlers (process.c) take all of them in that order. Other libraries' fork handlers may run, and allocate,
 * while this thread holds them: hak_lock_passes makes its own lock operations do nothing from there on. */
#ifndef HAK_LOCK_H
#define HAK_LOCK_H

#include "base.h"

#include <pthread.h>

typedef struct hak_lock {
  pthread_mutex_t mutex;
} hak_lock_t;

#define HAK_LOCK_INIT \
  { PTHREAD_MUTEX_INITIALIZER }

extern _Thread_local bool hak_lock_passes __attribute__((tls_model("initial-exec")));

HAK_INLINE void hak_lock(hak_lock_t *lock) {
  if (HAK_LIKELY(!hak_lock_passes)) {
    pthread_mutex_lock(&lock->mutex);
  }
}
HAK_INLINE void hak_unlock(hak_lock_t *lock) {
  if (HAK_LIKELY(!hak_lock_passes)) {
    pthread_mutex_unlock(&lock->mutex);
  }
}
/* In the child of a fork, where the thread that held the lock may not exist. */
HAK_INLINE void hak_lock_reset(hak_lock_t *lock) {
  pthread_mutex_init(&lock->mutex, NULL);
}

#endif
