/* Duty: what a thread's cache consists of: one stack of free blocks a class, as an array of pointers, a magazine.
 * Data: a heap belongs to one thread; other threads read `top`, `slots` and `capacity` for statistics and nothing else.
 * Layers below: magazine, types.
 *
 *   bin[class]   head ─> the newest block; HAK_NO_BLOCK where there is none
 *                top  ─> the slot of the one below it   slots[0] holds HAK_NO_BLOCK, block i of `count` slots[i],
 *                end     where `top` is when it is full  but the newest, whose slot holds anything
 *   info[class]  the magazine, capacity and what it adapts to (policy.c), current slab
 *
 *   slots   0        1       2     ..    count-1   count
 *         [ none ][ oldest ][     ]     [  top  ][ stale ][ ...                     blocks  =  top + 1 - slots
 *
 * A pop lowers `top` before it changes `head`, a push raises it last: whoever looks at the bin between any two
 * instructions (the child of a fork, a thread that counts) may miss a block, but never sees one twice.
 *
 * A bin that is closed has no room, and looks empty: blocks that others made and this thread frees wait in its magazine
 * until they are passed on.
 *
 * While the sampler is on, malloc takes blocks of up to 4 KiB from grant[class - 1]: blocks of the bin that were
 * counted before, in a magazine of their own. */
#pragma once

#include "magazine.h"

typedef struct hak_bin {
  hak_free_block_t *head;
  _Atomic(hak_free_block_t **) top;
  hak_free_block_t **end;
  uint32_t inverse, limit; /* of the class: see hak_is_block_start */
} hak_bin_t;

_Static_assert(sizeof(hak_bin_t) == HAK_BIN_WORDS * sizeof(void *), "codes of classes lead to bins");

/* Begins as a bin does, as far as hak_bin_pop looks. */
typedef struct hak_grant {
  hak_free_block_t *head;
  _Atomic(hak_free_block_t **) top;
} hak_grant_t;

_Static_assert(sizeof(hak_grant_t) == HAK_GRANT_WORDS * sizeof(void *), "codes of requests lead to grants");
_Static_assert(offsetof(hak_grant_t, top) == offsetof(hak_bin_t, top), "a grant begins as a bin");

typedef struct hak_bin_info {
  hak_magazine_t magazine;
  hak_magazine_t granted;
  hak_slab_t *current; /* refills come from here; may be NULL */
  _Atomic uint32_t capacity;
  _Atomic uint32_t outgoing; /* blocks that wait in the magazine of a closed bin */
  uint32_t sample_left;      /* blocks that may be handed out before the one that is sampled */
  uint32_t grant_least;      /* of what it grants at a time the sampler is content with so many blocks */
  uint32_t fetched;          /* blocks that came from behind the cache; stands still at its end */
  uint32_t quota_bytes;      /* of the capacity: granted before any need was shown */
  uint32_t lent;             /* of the capacity: by the sampler, so that grants are worth their call */
  uint32_t returned;         /* blocks that overflowed and were not fetched again yet */
  uint32_t streak;           /* overflows in a row without a refill between them */
  uint32_t seen_count;       /* at the last look for idle magazines */
  bool closed;
  bool busy;                    /* a refill or overflow since the last look for idle magazines */
  bool adaptive;                /* false: an option says the capacity */
  const void *seen_head;        /* at the last look for idle magazines; */
  const void *seen_middle;      /* the block below which half of them lay */
  _Atomic uint64_t asked_bytes; /* a sample, at every refill: sizes asked for, and how many */
  _Atomic uint64_t asked_count;
} hak_bin_info_t;

typedef struct hak_heap {
  _Alignas(HAK_CACHE_LINE) uintptr_t key; /* hak_key, at hand */
  hak_grant_t grant[HAK_GRANT_LAST];
  hak_bin_t bin[HAK_CLASS_COUNT];
  uint64_t no_bin[2];      /* stays 0: where the codes of classes without a bin lead to */
  uint64_t sample_setting; /* the sampler's, as the thread last saw it */
  uint64_t sample_random;
  hak_bin_info_t info[HAK_CLASS_COUNT];
  struct hak_heap *next;      /* list of all heaps */
  struct hak_heap *next_idle; /* list of heaps without a thread; of these, */
  size_t parked_bytes;        /* a parked one kept so much of what its thread had, */
  uint64_t parked_ms;         /* since then */
  uint32_t thread;            /* by its number in the system: the one that has it, or had it last */
  uint32_t forks;             /* before which the thread began, or went on: an orphan is behind the process's count */
  uint32_t events;            /* refills and overflows */
  uint32_t flush_seen;
  bool busy;             /* a thread has it */
  bool filled;           /* or it is parked: there may be blocks in its bins */
  size_t capacity_bytes; /* sum of capacity * block bytes over the adaptive classes, */
  size_t quota_bytes;    /* and what of it was granted before any need was shown */
  uint64_t looked_ms;    /* when idle magazines were last looked for */
  size_t run_bytes;      /* of runs that were fetched since */
  bool takes_fast;       /* faster than they could be written */
} hak_heap_t;

_Static_assert(offsetof(hak_heap_t, bin) == offsetof(hak_heap_t, grant) + HAK_BINS_AT * sizeof(void *),
               "behind the grants");

/* An initialiser for a heap that has no block. */
#define HAK_HEAP_EMPTY \
  { \
    .bin = {[0 ... HAK_CLASS_COUNT - 1] = {.head = HAK_NO_BLOCK}}, .grant = { \
      [0 ... HAK_GRANT_LAST - 1] = {.head = HAK_NO_BLOCK} \
    } \
  }

HAK_INLINE uint32_t hak_bin_capacity(const hak_bin_info_t *info) {
  return atomic_load_explicit(&info->capacity, memory_order_relaxed);
}

/* Blocks between a bin's or grant's `top` and the start of its magazine. Of another thread's: 0 in the middle of a
 * change, or a moment old. */
HAK_INLINE uint32_t hak_blocks_below(const _Atomic(hak_free_block_t **) *at, const hak_magazine_t *magazine) {
  hak_free_block_t **top = atomic_load_explicit(at, memory_order_relaxed);
  hak_free_block_t **slots = atomic_load_explicit(&magazine->slots, memory_order_relaxed);
  uintptr_t blocks = ((uintptr_t)(top + 1) - (uintptr_t)slots) / sizeof(void *);
  return blocks <= hak_magazine_size(magazine) ? (uint32_t)blocks : 0;
}
HAK_INLINE uint32_t hak_bin_blocks(const hak_heap_t *heap, uint32_t cls) {
  return hak_blocks_below(&heap->bin[cls].top, &heap->info[cls].magazine);
}
/* Blocks of a grant that were not handed out. */
HAK_INLINE uint32_t hak_grant_left(const hak_heap_t *heap, uint32_t cls) {
  return hak_blocks_below(&heap->grant[cls - 1].top, &heap->info[cls].granted);
}

HAK_INLINE hak_free_block_t **hak_bin_slots(const hak_heap_t *heap, uint32_t cls) {
  return hak_magazine_slots(&heap->info[cls].magazine);
}

/* bin.c: changes of a bin and its magazine by its owner. */

/* Every block stands in its slot afterwards. Returns how many there are. */
uint32_t hak_bin_settle(hak_heap_t *heap, uint32_t cls);
/* The bin lets go of all but so many blocks, which stay in their slots for now. */
void hak_bin_lower(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* It has so many blocks now, of which the newest came to their slots. */
void hak_bin_raise(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* A magazine for so many blocks, with those of the bin in it. False: no memory; it is as it was. */
bool hak_bin_reserve(hak_heap_t *heap, uint32_t cls, uint32_t blocks);

/* Room is as far as the capacity and the magazine go; a bin may have more blocks than that. */
HAK_INLINE void hak_bin_set_end(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t capacity = info->closed ? 0 : hak_bin_capacity(info), blocks = hak_bin_blocks(heap, cls);
  uint32_t size = hak_magazine_size(&info->magazine);
  capacity = capacity < size ? capacity : size;
  heap->bin[cls].end = hak_magazine_slots(&info->magazine) + (capacity > blocks ? capacity : blocks) - 1;
}

/* The newest block of the bin, marked as taken. NULL: there is none; or it was written to while it was free. */
HAK_INLINE void *hak_bin_pop(hak_heap_t *heap, hak_bin_t *bin) {
  hak_free_block_t *block = bin->head;
  if (HAK_UNLIKELY(block->tag != ((uintptr_t)block ^ heap->key))) {
    return NULL;
  }
  hak_free_block_t **top = atomic_load_explicit(&bin->top, memory_order_relaxed), *next = *top;
  atomic_store_explicit(&bin->top, top - 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_release);
  bin->head = next;
  __builtin_prefetch(next, 1); /* the next call's block, which may be long out of the cache */
  return hak_mark_taken(block);
}

/* False: there is no room, or the block was freed just before. */
HAK_INLINE bool hak_bin_push(hak_heap_t *heap, hak_bin_t *bin, hak_free_block_t *block) {
  hak_free_block_t *head = bin->head, **top = atomic_load_explicit(&bin->top, memory_order_relaxed);
  if (HAK_UNLIKELY(top == bin->end || head == block)) {
    return false;
  }
  block->tag = (uintptr_t)block ^ heap->key;
  top[1] = head;
  atomic_signal_fence(memory_order_release);
  bin->head = block;
  atomic_signal_fence(memory_order_release);
  atomic_store_explicit(&bin->top, top + 1, memory_order_relaxed);
  return true;
}
