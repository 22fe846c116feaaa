/* Duty: whether the slow paths must ask the sampler. Data: the setting, and whether a tracer is attached; each heap
 * keeps the setting that its thread last read. Layers below: heap. */
#pragma once

#include "threads/threads.h"

/* The sampling setting, which another process may change. The low 48 bits hold the mean bytes between two samples,
 * except the highest of them, which means that blocks are guarded. Above them is a number that each change increments.
 * Threads soon notice a new value and put it into force. */
extern _Atomic uint64_t hak_sample_request;
enum { HAK_SAMPLE_MEAN_BITS = 48 };
#define HAK_SAMPLE_GUARDS ((uint64_t)1 << (HAK_SAMPLE_MEAN_BITS - 1))

/* Whether the setting asks for samples or guards. */
HAK_INLINE bool hak_sampling_takes(uint64_t setting) {
  return (setting & (HAK_SAMPLE_GUARDS | (HAK_SAMPLE_GUARDS - 1))) != 0;
}

/* Whether a tracer of allocations has come or gone since the last check. */
extern volatile uint16_t hak_probe_alloc_semaphore;
extern _Atomic bool hak_probes_seen;
HAK_INLINE bool hak_sampling_probes_changed(void) {
  return (hak_probe_alloc_semaphore != 0) != atomic_load_explicit(&hak_probes_seen, memory_order_relaxed);
}

/* Whether sampling is on, or is about to change for this thread. */
HAK_INLINE bool hak_sampling_is_on(void) {
  uint64_t setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed);
  return setting != hak_heap->sample_setting || hak_sampling_takes(setting) || hak_sampling_probes_changed();
}
