/* Duty: the one interface through which the heap calls inspect/, while it samples or counts blocks. batches.c,
 * sampled.c and profile.c define these functions; the heap knows nothing else of them. With sampling off, the heap
 * calls none of them for a block. Data: the setting, and whether a tracer is attached; each heap keeps the setting that
 * its thread last read. Layers below: heap. */
#pragma once

#include "threads/heap.h"

/* The sampling setting, which another process may change. The low 48 bits hold the mean bytes between two samples,
 * except the highest of them, which means that blocks are guarded. Above them is a number that each change increments.
 * Threads soon notice a new value and put it into force. */
extern _Atomic uint64_t hak_sample_request;
enum { HAK_SAMPLE_MEAN_BITS = 48 };
#define HAK_SAMPLE_GUARDS ((uint64_t)1 << (HAK_SAMPLE_MEAN_BITS - 1))

/* Whether the setting asks for samples or guards. */
HAK_INLINE bool hak_sample_takes(uint64_t setting) {
  return (setting & (HAK_SAMPLE_GUARDS | (HAK_SAMPLE_GUARDS - 1))) != 0;
}

/* Whether a tracer of allocations has come or gone since the last check. */
extern volatile uint16_t hak_probe_alloc_semaphore;
extern _Atomic bool hak_probes_seen;
HAK_INLINE bool hak_probes_changed(void) {
  return (hak_probe_alloc_semaphore != 0) != atomic_load_explicit(&hak_probes_seen, memory_order_relaxed);
}

/* Whether sampling is on, or is about to change for this thread. */
HAK_INLINE bool hak_hook_is_on(void) {
  uint64_t setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed);
  return setting != hak_heap->sample_setting || hak_sample_takes(setting) || hak_probes_changed();
}

/* With sampling off, the heap calls these functions only for a refused request. They therefore add nothing to the stack
 * or the code of the heap's callers. */

/* Serve a request of up to HAK_SMALL_MAX bytes for which the batch was empty. Returns a counted block, or a sample.
 * NULL: the heap must find a block. */
HAK_NOINLINE void *hak_hook_alloc(size_t bytes);
/* The heap found a block and is about to hand it out. */
HAK_NOINLINE void hak_hook_allocated(void *block, size_t bytes);
/* The heap refused a request for want of memory. */
HAK_NOINLINE void hak_hook_refused(size_t bytes);

/* Free a block of class SAMPLED. Returns the class of a run or huge block, restored in the page map, which the caller
 * must free. HAK_CLASS_NONE: the hook freed it. */
HAK_NOINLINE uint32_t hak_hook_free(void *block);
/* Usable bytes of a block. If there is no such block, it aborts and names `function`. */
HAK_NOINLINE size_t hak_hook_usable(const void *block, const char *function);
/* Before a run or huge block is resized: end its role as a sample. NULL: it is no sample of that kind. */
HAK_NOINLINE struct hak_sample *hak_hook_lift(const void *block);
/* After the resize. `changed`: the block was freed; else it becomes a sample again. */
HAK_NOINLINE void hak_hook_put_back(struct hak_sample *sample, bool changed);

/* Part of hak_check(). */
void hak_hook_check(void);
