/* Duty: which heap (thread cache) a thread has; heaps of ended threads; all heaps, for statistics and fork.
 * Data: hak_heap is the calling thread's; the lists are under the heaps' lock (outermost). Layers below: cache. */
#pragma once

#include "cache.h"
#include "lock.h"

/* A thread without a heap has one of these two: every bin empty and without room, so the first call of a thread
 * takes the slow path without a test for it. `gone`: the thread is ending and gets none any more. */
extern hak_heap_t hak_heap_none, hak_heap_gone;

/* Static TLS: a library loaded by dlopen gets little of it. */
extern _Thread_local hak_heap_t *hak_heap __attribute__((tls_model("initial-exec")));
/* The same for the C++ operators, once these know that nobody replaced any of them; else none. */
extern _Thread_local hak_heap_t *hak_heap_operators __attribute__((tls_model("initial-exec")));

/* The heap of this thread, made if need be. NULL: the thread is ending, or there is no memory for one. */
hak_heap_t *hak_heap_mine(void);

/* Return everything this thread caches. */
void hak_heap_flush_mine(const char *function);

/* Look for misuse in what this thread caches, and in what lies between threads. */
void hak_heap_verify_mine(const char *function);

/* Whether a block that is marked as free lies in a slab, a depot or a thread's cache; looks through them. One that
 * moves between these meanwhile may be missed. */
bool hak_heap_holds(const void *block, uint32_t cls);

/* From now on every thread frees blocks of these classes on its slow path: see altered.h. A bit for each class that
 * blocks have; samples, which are of any class, share that of huge blocks. 0: as an option says, which may be read
 * after the first heap was made. */
void hak_heap_divert(uint64_t classes);
extern _Atomic uint64_t hak_heap_diverted;
HAK_INLINE uint64_t hak_class_bit(uint32_t cls) {
  return cls == HAK_CLASS_NONE ? 0 : 1ULL << ((cls < HAK_CLASS_HUGE ? cls : (uint32_t)HAK_CLASS_HUGE) - 1);
}
_Static_assert(HAK_CLASS_HUGE <= 64, "a bit for each class");
HAK_INLINE bool hak_heap_diverts(uint32_t cls) {
  return HAK_UNLIKELY((atomic_load_explicit(&hak_heap_diverted, memory_order_relaxed) & hak_class_bit(cls)) != 0);
}

/* At start: threads are known by their numbers from now on, also the calling one. */
void hak_heap_find_thread_ids(void);

void hak_heap_check(void);
/* Whether its thread did not survive a fork. */
bool hak_heap_is_orphan(const hak_heap_t *heap);
/* In the child of a fork, without touching them: the heaps of the threads that are gone wait for a look at them. */
void hak_heap_fork_child(void);
/* One of them: return what it holds, so that threads can use it and its blocks. False: there is none. */
bool hak_heap_adopt_orphan(void);
/* Heaps that ended threads parked, by then: return what they hold. To be asked now and then: those parked for a decay
 * time. */
void hak_heap_close_parked(uint64_t until_ms);
void hak_heap_age_parked(void);
extern hak_lock_t hak_heaps_lock;
extern hak_heap_t *hak_heaps_all;
