/* Duty: byte-based sampling: the choice of blocks, and the data about each. Sampling costs nothing while off:
 * docs/design.md. Data: the setting, and the countdowns in each heap, which belong to its thread. Layers below: slots,
 * records, hook.
 *
 *   off    malloc <── bin <── free        on    malloc <── batch <── counted here <── bin <── free */
#pragma once

#include "malloc/malloc.h"
#include "records.h"

/* For the profiler. */

/* Set the mean bytes between two samples of a thread and class: 1 (every block) to 2^30; 0: off. Any thread may call it
 * at any time. A thread applies the value when it next leaves the fast path, except to blocks that were counted before.
 * False: no memory. */
bool hak_sample_start(size_t mean_bytes);
void hak_sample_stop(void);
size_t hak_sample_rate(void); /* 0: off */

/* Like hak_sample_start for guarded blocks, of which at most `slots` exist at a time. The call works once. False: no
 * memory, or a second call. */
bool hak_sample_guard(size_t mean_bytes, size_t slots);

#define HAK_SAMPLE_MEAN_MAX ((size_t)1 << 30)
#define HAK_SAMPLE_MEAN_USUAL ((size_t)512 << 10) /* the default */

HAK_INLINE uint64_t hak_sample_mean_of(uint64_t setting) {
  return setting & (HAK_SAMPLE_GUARDS - 1);
}

/* Visit a copy of every live sample, without a lock. Some samples may be freed by then; a live one is visited once. */
void hak_sampler_each(void (*visit)(const hak_sample_t *sample, void *argument), void *argument);

typedef struct hak_sample_totals {
  _Atomic uint64_t taken;
  _Atomic uint64_t dropped; /* samples that became ordinary blocks for want of memory */
} hak_sample_totals_t;
extern hak_sample_totals_t hak_samples;

/* batches.c: see hook.h. */
void *hak_batches_alloc(size_t bytes, size_t align, bool *zeroed);
void hak_batches_allocated(void *block, size_t bytes);
void hak_batches_in_region(void *block, size_t bytes);

/* For batches.c. */

/* Put the present setting into force for this thread. Returns its heap, or NULL. */
hak_heap_t *hak_sample_catch_up(uint64_t *setting);
/* The thread is about to hand out a block of the class, and its countdown to the next sample has ended. Take a sample
 * of `bytes` if one is due. `block` NULL: get a block for the sample. Returns the sample; NULL: none was due. */
void *hak_sample_if_due(hak_heap_t *heap, void *block, uint32_t cls, size_t asked, size_t bytes, uint64_t setting);

/* A block of a region is about to be handed out. False: the block is no sample. */
bool hak_sample_in_region(void *block, size_t asked);

/* For tests: derive the random numbers from `seed`, and each heap's numbers from the order in which heaps come. 0: use
 * random numbers again. */
void hak_sample_seed(uint64_t seed);
