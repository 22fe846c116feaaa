/* Duty: sampling by bytes: which blocks are looked at, and what is known of each. Off, it costs nothing:
 * docs/design.md. Data: the setting, and the countdowns in each heap, which are its thread's. Layers below: slots,
 * records, hook.
 *
 *   off    malloc <── bin <── free        on    malloc <── grant <── counted here <── bin <── free */
#pragma once

#include "hook.h"
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

#define HAK_SAMPLE_MEAN_MAX ((size_t)1 << 30)
#define HAK_SAMPLE_MEAN_USUAL ((size_t)512 << 10) /* where nobody says another */

HAK_INLINE uint64_t hak_sample_mean_of(uint64_t setting) {
  return setting & (HAK_SAMPLE_GUARDS - 1);
}

/* Every live sample, from a copy; no lock is held meanwhile, so some may be gone by then. One that lives throughout is
 * seen once. */
void hak_sample_each(void (*visit)(const hak_sample_t *sample, void *argument), void *argument);

typedef struct hak_sample_totals {
  _Atomic uint64_t taken;
  _Atomic uint64_t dropped; /* would have been taken, but for want of memory were ordinary blocks */
} hak_sample_totals_t;
extern hak_sample_totals_t hak_samples;

/* For grants.c. */

/* The thread's heap, or NULL, and the setting that it goes by from now on. */
hak_heap_t *hak_sample_catch_up(uint64_t *setting);
/* A block of the class is about to be handed out, and the thread has none left to count down before the one that is
 * sampled: take a sample of `bytes`, if it is due. `block` NULL: one is taken for it then. Returns the sample; NULL: it
 * is none. */
void *hak_sample_if_due(hak_heap_t *heap, void *block, uint32_t cls, size_t asked, size_t bytes, uint64_t setting);

/* From now on random numbers follow from this one, each heap's from its order: for tests. 0: no more. */
void hak_sample_seed(uint64_t seed);
