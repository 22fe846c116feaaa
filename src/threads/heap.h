/* Duty: the heap (thread cache) of each thread; the heaps of ended threads; all heaps, for statistics and fork.
 * Data: hak_heap is the calling thread's; the lists are under the heaps' lock (outermost). Layers below: cache. */
#pragma once

#include "cache.h"

/* A thread without a heap has this one. Every bin is empty and without room, so its first call takes the slow path
 * without an extra test. */
extern const hak_heap_front_t hak_heap_no_front;
#define HAK_HEAP_NONE ((hak_heap_t *)(uintptr_t)&hak_heap_no_front)

/* The calling thread's heap. The variable is in static TLS, of which a library loaded by dlopen gets little. */
extern _Thread_local hak_heap_t *hak_heap __attribute__((tls_model("initial-exec")));
/* The heap that the C++ operators use: the same one, once it is known that the program replaces no operator; until
 * then, the empty heap. */
extern _Thread_local hak_heap_t *hak_heap_operators __attribute__((tls_model("initial-exec")));

/* Return this thread's heap, and make one if needed. NULL: the thread is ending, or there is no memory. */
hak_heap_t *hak_heap_mine(void);
/* Make the heap if needed; at the end of the thread, even if its heap went before, hak_hook_heap.thread_ends is called.
 */
void hak_heap_expect_end(void);
/* Close the calling thread's heap, if it has one; it gets none from here on. */
void hak_heap_leave(void);

/* Set the thread's heap aside during a call that other libraries may intercept, and restore it. */
void hak_heap_step_aside(hak_aside_t *aside);
void hak_heap_step_back(const hak_aside_t *aside);

/* Return everything this thread caches. */
void hak_heap_flush_mine(const char *function);

/* Look for misuse in this thread's cache and in the depots. */
void hak_heap_verify_mine(const char *function);

/* Whether a block marked as free is in a slab, a depot or a thread's cache; searches them all. The search may miss a
 * block that moves meanwhile. */
bool hak_heap_holds(const void *block, uint32_t cls);

/* Force every thread to free blocks of these classes on its slow path: see page_attributes.h. `classes` has one bit for
 * each class; samples share the bit of huge blocks. 0: only if an option asks for it; the options can be read once the
 * first heap exists. */
void hak_heap_force_slow(uint64_t classes);
extern _Atomic uint64_t hak_heap_forced_slow;
HAK_INLINE uint64_t hak_heap_class_bit(uint32_t cls) {
  return cls == HAK_CLASS_NONE ? 0 : 1ULL << ((cls < HAK_CLASS_HUGE ? cls : (uint32_t)HAK_CLASS_HUGE) - 1);
}
_Static_assert(HAK_CLASS_HUGE <= 64, "a bit for each class");
HAK_INLINE bool hak_heap_forces_slow(uint32_t cls) {
  return HAK_UNLIKELY((atomic_load_explicit(&hak_heap_forced_slow, memory_order_relaxed) & hak_heap_class_bit(cls)) !=
                      0);
}

/* Start-up: identify all threads by their system numbers from here on, including the calling one. */
void hak_heap_set_thread_id_place(const uint32_t field[3]);

void hak_heap_check(void);
/* Whether the heap's thread did not survive a fork. */
bool hak_heap_is_orphan(const hak_heap_t *heap);
/* In the child of a fork: queue the heaps of the parent's other threads for adoption, without touching them. `alone`:
 * the parent had no other thread. Returns the heap of the calling thread; NULL: the thread has none. */
hak_heap_t *hak_heap_fork_child(bool alone);
/* Return the blocks of one orphaned heap, so that threads can reuse the heap and the blocks. False: there is none. */
bool hak_heap_adopt_orphan(void);
/* Return the blocks in heaps that were parked up to this time. */
void hak_heap_close_parked(uint64_t until_ms);
void hak_heap_age_parked(void);
extern hak_lock_t hak_heaps_lock;
extern hak_heap_t *hak_heaps_all;
