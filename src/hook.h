/* Duty: the one place where the heap asks who looks inside of it (inspect/): about blocks on their way out and back
 * while some are counted or sampled. grants.c, sampled.c and profile.c define these functions; the heap knows nothing
 * else of it. While nobody looks, none is called on the way of a block. Data: the setting, and whether a tracer is
 * there; what a thread has seen of the setting is in its heap. Layers below: heap. */
#pragma once

#include "heap.h"

/* The setting, and how another process changes it: the mean bytes between two samples in the low 48 bits, above them a
 * number that each change counts up by one. Whoever writes it, a thread that passes by soon puts it into force. The
 * highest bit of the 48 is ours: blocks are guarded. */
extern _Atomic uint64_t hak_sample_request;
enum { HAK_SAMPLE_MEAN_BITS = 48 };
#define HAK_SAMPLE_GUARDS ((uint64_t)1 << (HAK_SAMPLE_MEAN_BITS - 1))

/* Whether there is anything to count for. */
HAK_INLINE bool hak_sample_takes(uint64_t setting) {
  return (setting & (HAK_SAMPLE_GUARDS | (HAK_SAMPLE_GUARDS - 1))) != 0;
}

/* Whether a tracer of allocations has come or gone since it was asked about. */
extern volatile uint16_t hak_probe_alloc_semaphore;
extern _Atomic bool hak_probes_seen;
HAK_INLINE bool hak_probes_changed(void) {
  return (hak_probe_alloc_semaphore != 0) != atomic_load_explicit(&hak_probes_seen, memory_order_relaxed);
}

/* Whether blocks are looked at, or that is about to change for this thread. */
HAK_INLINE bool hak_hook_is_on(void) {
  uint64_t setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed);
  return setting != hak_heap->sample_setting || hak_sample_takes(setting) || hak_probes_changed();
}

/* What is asked. While nobody looks: of no block on its way, but where a request is refused; so none of this is on the
 * stack then, nor between the instructions of those who ask. */

/* A request of up to HAK_SMALL_MAX bytes that the thread's list did not serve: a block that was counted, or is a
 * sample. NULL: the heap is to find one. */
HAK_NOINLINE void *hak_hook_alloc(size_t bytes);
/* The heap found one, which is about to be handed out. */
HAK_NOINLINE void hak_hook_allocated(void *block, size_t bytes);
/* A request was refused for want of memory. */
HAK_NOINLINE void hak_hook_refused(size_t bytes);

/* For blocks of the class SAMPLED. The class of one that is freed, and the page map has it again: a run or a huge
 * block, to be freed by the caller; HAK_CLASS_NONE: it was freed there. */
HAK_NOINLINE uint32_t hak_hook_free(void *block);
/* Bytes that its owner may use. `function` is named where there is no such block. */
HAK_NOINLINE size_t hak_hook_usable(const void *block, const char *function);
/* Before a run or a huge block is resized: it is no sample now. NULL: it is neither. */
HAK_NOINLINE struct hak_sample *hak_hook_lift(const void *block);
/* After it: nothing changed, so it is one again; or it was freed. */
HAK_NOINLINE void hak_hook_put_back(struct hak_sample *sample, bool changed);

/* For hak_check(). */
void hak_hook_check(void);
