/* Duty: sampling by bytes: which blocks are looked at, and what is known of each. Off, it costs nothing:
 * docs/design.md. Data: the setting, and the countdowns in each heap, which are its thread's. Layers below: slots,
 * records, heap.
 *
 *   off    malloc <── bin <── free        on    malloc <── grant <── counted here <── bin <── free */
#pragma once

#include "heap.h"
#include "records.h"

/* For who profiles. */

/* Mean bytes between two samples of a thread and class: 1 (every block) to 2^30; 0: off. Any thread, any time; in force
 * for a thread when it next leaves the fast path, less what was granted before. False: no memory. */
bool hak_sample_start(size_t mean_bytes);
void hak_sample_stop(void);
size_t hak_sample_rate(void); /* 0: off */

/* Once: the same for blocks between guard pages, of which so many are to be had at a time. False: no memory, or not
 * for the first time. */
bool hak_sample_guard(size_t mean_bytes, size_t slots);
/* As the options say. */
void hak_sample_start_up(void);

/* The setting, and how another process changes it: the mean in the low 48 bits, above them a number that each change
 * counts up by one. Whoever writes it, a thread that passes by soon puts it into force. The highest bit of the 48 is
 * ours: blocks are guarded. */
extern _Atomic uint64_t hak_sample_request;
enum { HAK_SAMPLE_MEAN_BITS = 48 };
#define HAK_SAMPLE_GUARDS ((uint64_t)1 << (HAK_SAMPLE_MEAN_BITS - 1))
#define HAK_SAMPLE_MEAN_MAX ((size_t)1 << 30)
#define HAK_SAMPLE_MEAN_USUAL ((size_t)512 << 10) /* where nobody says another */

HAK_INLINE uint64_t hak_sample_mean_of(uint64_t setting) {
  return setting & (HAK_SAMPLE_GUARDS - 1);
}

/* Whether there is anything to count for. */
HAK_INLINE bool hak_sample_takes(uint64_t setting) {
  return (setting & (HAK_SAMPLE_GUARDS | (HAK_SAMPLE_GUARDS - 1))) != 0;
}

/* Every live sample, from a copy; no lock is held meanwhile, so some may be gone by then. One that lives throughout is
 * seen once. */
void hak_sample_each(void (*visit)(const hak_sample_t *sample, void *argument), void *argument);

typedef struct hak_sample_totals {
  uint64_t taken, live;
  uint64_t weight_bytes; /* of all that were taken: what was allocated, estimated */
  uint64_t dropped;      /* would have been taken, but for want of memory were ordinary blocks */
  size_t slot_bytes;     /* memory for samples, in use or not */
} hak_sample_totals_t;
hak_sample_totals_t hak_sample_totals(void);

/* profile.c defines these. The block is the calling thread's: not handed out yet, or just freed. No lock is held;
 * neither may allocate or free. */
void hak_profile_allocated(hak_sample_t *sample);
void hak_profile_freed(hak_sample_t *sample);
/* A request was refused for want of memory. */
void hak_profile_refused(size_t bytes);

/* For slow.c, api.c and resize.c, on the way to a block. */

HAK_INLINE bool hak_sample_is_on(void) {
  uint64_t setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed);
  return setting != hak_heap->sample_setting || hak_sample_takes(setting);
}
/* bytes <= HAK_SMALL_MAX, and no block was granted: grant what lies in the bin, and take the first. NULL: it is not so
 * easy. */
void *hak_sample_grant(size_t bytes);
/* The same, once more: count the request. The block, if it is a sample, or was granted already; else NULL. */
void *hak_sample_count(size_t bytes);
/* Then, when the bin was filled for it: grant what is left. */
void hak_sample_grant_rest(size_t bytes);
/* A run or a huge block is about to be handed out: count it. */
void hak_sample_large(void *block, size_t bytes);

/* For blocks of the class SAMPLED. */

size_t hak_sample_usable(const void *block, const char *function);
/* Its class, and the page map has it again: a run or a huge block, to be freed by the caller. HAK_CLASS_NONE: it was
 * freed here. */
uint32_t hak_sample_free(void *block);
/* Before a run or a huge block is resized: it is no sample now. NULL: it is neither. */
hak_sample_t *hak_sample_lift(const void *block);
/* After it: nothing changed, so it is one again; or it was freed. */
void hak_sample_put_back(hak_sample_t *sample);
void hak_sample_end(hak_sample_t *sample);

/* From now on random numbers follow from this one, each heap's from its order: for tests. 0: no more. */
void hak_sample_seed(uint64_t seed);
