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

/* profile.c defines these, which may neither allocate nor free, and are called without a lock. */

/* Where the calling thread allocates. */
struct hak_site *hak_profile_site(void);
/* The block is counted, and not handed out yet. */
void hak_profile_allocated(const hak_sample_t *sample);
/* Whether somebody wants to know of frees; then, before anyone else can have the block. */
bool hak_profile_tells_frees(void);
void hak_profile_freed(const hak_sample_t *sample);
/* A request was refused for want of memory. */
void hak_profile_refused(size_t bytes);

/* For slow.c, api.c and resize.c, on the way to a block. */

HAK_INLINE bool hak_sample_is_on(void) {
  uint64_t setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed);
  return setting != hak_heap->sample_setting || hak_sample_takes(setting);
}
enum { HAK_GRANT_CUT_MOST = 256 }; /* blocks before a sample that are walked over at a time */
/* bytes <= HAK_SMALL_MAX, and no block was granted: grant what lies in the bin, and take the first. NULL: it is not so
 * easy. */
HAK_INLINE void *hak_sample_grant(size_t bytes) {
  hak_heap_t *heap = hak_heap;
  uint32_t at = hak_small_code(bytes) / HAK_GRANT_WORDS; /* whose line of the table is at hand */
  if (HAK_UNLIKELY(heap->sample_setting != atomic_load_explicit(&hak_sample_request, memory_order_relaxed) ||
                   at >= HAK_GRANT_LAST)) {
    return NULL;
  }
  hak_grant_t *grant = &heap->grant[at];
  hak_bin_t *bin = &heap->bin[at + 1];
  hak_bin_info_t *info = &heap->info[at + 1];
  hak_free_block_t *block = bin->head, *next = block->link;
  int32_t capacity = hak_bin_capacity(info);
  uint32_t count = (uint32_t)(capacity - hak_bin_room(bin));
  if (HAK_UNLIKELY(((uintptr_t)next ^ block->tag) != heap->key || grant->head != HAK_LIST_END ||
                   count < info->grant_least)) {
    return NULL;
  }
  if (HAK_UNLIKELY(count > info->sample_left)) { /* it is to be cut there; not if that is a long way to walk */
    if (info->sample_left <= HAK_GRANT_CUT_MOST) {
      return NULL;
    }
    info->sample_left--;
    bin->head = next;
    hak_bin_set_room(bin, capacity - (int32_t)count + 1);
  } else {
    info->sample_left -= count;
    hak_bin_set_room(bin, capacity);
    hak_grant_hand_over(bin, grant, next, HAK_LIST_END, (int32_t)count - 1);
  }
  info->busy = true;
  __builtin_prefetch(next);
  hak_mark_taken(block);
  return block;
}
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
