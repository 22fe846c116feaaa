/* Duty: a thread's cache, which has one stack of free blocks for each class, as an array of pointers (a magazine).
 * Data: a heap belongs to one thread. Other threads read only `top`, `slots` and `capacity`, for statistics.
 * Layers below: magazine, types.
 *
 *   bin[class]   head ─> the newest block; HAK_NO_BLOCK if there is none
 *                top  ─> the slot of the one below it   slots[0] holds HAK_NO_BLOCK, and slots[i] block i of `count`;
 *                end     where `top` is when it is full  the slot of the newest block is stale
 *   info[class]  the magazine, its adaptive capacity (policy.c), and the current slab
 *
 *   slots   0        1       2     ..    count-1   count
 *         [ none ][ oldest ][     ]     [  top  ][ stale ][ ...                     blocks  =  top + 1 - slots
 *
 * A pop lowers `top` before it changes `head`, and a push raises `top` last. The child of a fork, or a thread that
 * counts, may see the bin between any two instructions. The reader may then miss a block, but never sees one twice.
 *
 * While `buffers_remote` is set, the bin has no room and looks empty. The bin's magazine is then the remote-free
 * buffer: it collects blocks that other threads allocated and this one frees.
 *
 * While the sampler is on, malloc takes blocks of up to 4 KiB from batch[class - 1]. This batch holds blocks of the bin
 * that were counted in advance, and has a magazine of its own. */
#pragma once

#include "blocks/blocks.h"

typedef struct hak_bin {
  hak_free_block_t *head;
  _Atomic(hak_free_block_t **) top;
  hak_free_block_t **end;
  uint32_t inverse, limit; /* the class's values for hak_is_block_start */
} hak_bin_t;

_Static_assert(sizeof(hak_bin_t) == HAK_BIN_WORDS * sizeof(void *), "codes of classes lead to bins");

/* Starts with the fields of hak_bin_t that hak_bin_pop reads. */
typedef struct hak_batch {
  hak_free_block_t *head;
  _Atomic(hak_free_block_t **) top;
} hak_batch_t;

_Static_assert(sizeof(hak_batch_t) == HAK_BATCH_WORDS * sizeof(void *), "codes of requests lead to batches");
_Static_assert(offsetof(hak_batch_t, top) == offsetof(hak_bin_t, top), "a batch begins as a bin");

typedef struct hak_bin_info {
  hak_magazine_t magazine;
  hak_magazine_t batch_magazine;
  hak_slab_t *current; /* source of refills; may be NULL */
  _Atomic uint32_t capacity;
  _Atomic uint32_t remote_count; /* blocks in the remote-free buffer */
  uint32_t sample_left;          /* blocks to hand out before the next sample */
  uint32_t batch_least;          /* least number of blocks in the bin for a new batch */
  uint32_t fetched;              /* blocks that refills fetched, up to HAK_MAGAZINE_MAX */
  uint32_t slow_start_bytes;     /* part of the capacity, in bytes, that slow start gave */
  uint32_t sampler_quota;        /* part of the capacity, in blocks, that keeps counted batches large */
  uint32_t overflowed;           /* blocks that overflowed and were not fetched again yet */
  uint32_t consecutive;          /* overflows in a row without a refill between them */
  uint32_t mixed_bytes;          /* bytes of blocks that the thread took from mixed slabs */
  uint32_t idle_count;           /* block count at the last scavenge */
  bool buffers_remote;           /* the magazine is a remote-free buffer */
  bool busy;                     /* a refill or overflow since the last scavenge */
  bool fixed;                    /* an option sets the capacity */
  uint8_t refills;               /* refills so far, up to the number that the policy asks for */
  const void *idle_head;         /* the newest block at the last scavenge */
  const void *idle_middle;       /* the block in the middle of the bin at the last scavenge */
  _Atomic uint64_t asked_bytes;  /* sum of the requested sizes, sampled at every refill, for statistics */
  _Atomic uint64_t asked_count;
} hak_bin_info_t;

enum { HAK_FIRST_MAGAZINES = 17 }; /* these fill the first page of a heap */

/* Fields of a heap that are read before it is known whether the thread has a heap. */
#define HAK_HEAP_FRONT \
  _Alignas(HAK_CACHE_LINE) uintptr_t key; /* a copy of hak_key */ \
  hak_batch_t batch[HAK_BATCH_LAST]; \
  hak_bin_t bin[HAK_CLASS_COUNT]; \
  uint64_t no_bin[3];                /* always 0; the codes of classes without a bin lead here */ \
  uint64_t sample_setting;           /* the sampler's setting, as the thread last read it */ \
  struct hak_quarantine *quarantine; /* hardened profile: the thread's free blocks; NULL: none yet */

typedef struct hak_heap_front {
  HAK_HEAP_FRONT
} hak_heap_front_t;

typedef struct hak_heap {
  HAK_HEAP_FRONT
  uint64_t sample_random;
  uint64_t touched;           /* a bit for each class whose `info` was written since the heap was opened */
  struct hak_heap *next;      /* list of all heaps */
  struct hak_heap *next_idle; /* list of heaps without a thread */
  size_t parked_bytes;        /* bytes of blocks in a parked heap */
  uint64_t parked_ms;         /* time when the heap was parked */
  uint32_t thread;            /* the owner's number in the system, or the last owner's */
  uint32_t forks;             /* fork count when its thread began or last forked; an orphan's count is out of date */
  uint32_t events;            /* refills and overflows */
  uint32_t flush_seen;
  bool busy;                          /* a thread has it */
  bool filled;                        /* a thread has it, or it is parked: its bins may hold blocks */
  bool heap_shrinks;                  /* less than half of the recent peak is in use */
  size_t budget_bytes;                /* sum of capacity * block bytes over the adaptive classes up to 4 KiB */
  size_t large_budget_bytes;          /* the same sum over the classes above 4 KiB */
  size_t cached_bytes;                /* bytes in the bins at the last count */
  size_t slow_start_bytes;            /* slow-start quota: part of both budgets, given before any need was shown */
  uint64_t scavenged_ms;              /* time of the last scavenge */
  hak_mixed_place_t mixed;            /* the page that first blocks come from */
  uint8_t mixed_frees[HAK_RUN_FIRST]; /* by class, frees of blocks of mixed slabs, each by the slow path */
  uint8_t first_magazines;            /* number of `first_slots` that were given to bins, for good */
  hak_free_block_t *first_slots[HAK_FIRST_MAGAZINES][HAK_MAGAZINE_LEAST + 1];
  /* From the second page on. Fresh memory of zeros is a class that was not used yet, except the smallest ones. */
  _Alignas(HAK_CACHE_LINE) hak_bin_info_t info[HAK_CLASS_COUNT];
} hak_heap_t;

_Static_assert(offsetof(hak_heap_t, info) == (1 << HAK_PAGE_SHIFT) - HAK_CACHE_LINE,
               "what most calls use lies in one page");

_Static_assert(offsetof(hak_heap_t, bin) == offsetof(hak_heap_t, batch) + HAK_BINS_AT * sizeof(void *),
               "behind the batches");

_Static_assert(offsetof(hak_heap_t, quarantine) == offsetof(hak_heap_front_t, quarantine), "the same front");

/* The next class after `cls` whose `info` was written; HAK_CLASS_COUNT: there is none. The other classes have no
 * blocks, and no pages of theirs need be read. */
HAK_INLINE uint32_t hak_bin_next_touched(const hak_heap_t *heap, uint32_t cls) {
  uint64_t left = heap->touched >> cls >> 1;
  return left ? cls + 1 + (uint32_t)__builtin_ctzll(left) : (uint32_t)HAK_CLASS_COUNT;
}
_Static_assert(HAK_CLASS_COUNT <= 64, "a bit for each class");
/* The store comes first, so that the first page fault is a write fault. */
HAK_INLINE void hak_bin_touch(hak_heap_t *heap, uint32_t cls) {
  if (HAK_UNLIKELY(!(heap->touched >> cls & 1))) {
    heap->touched |= (uint64_t)1 << cls;
    heap->info[cls].busy = false;
    atomic_signal_fence(memory_order_seq_cst);
  }
}

HAK_INLINE uint32_t hak_bin_capacity(const hak_bin_info_t *info) {
  return atomic_load_explicit(&info->capacity, memory_order_relaxed);
}

/* Number of blocks between the `top` of a bin or batch and the start of its magazine. For another thread's heap, it may
 * be a moment old, or 0 during a change. */
HAK_INLINE uint32_t hak_bin_blocks_below(const _Atomic(hak_free_block_t **) *at, const hak_magazine_t *magazine) {
  hak_free_block_t **top = atomic_load_explicit(at, memory_order_relaxed);
  hak_free_block_t **slots = hak_magazine_slots(magazine);
  uintptr_t blocks = ((uintptr_t)(top + 1) - (uintptr_t)slots) / sizeof(void *);
  return blocks <= hak_magazine_size(magazine) ? (uint32_t)blocks : 0;
}
HAK_INLINE uint32_t hak_bin_blocks(const hak_heap_t *heap, uint32_t cls) {
  return hak_bin_blocks_below(&heap->bin[cls].top, &heap->info[cls].magazine);
}
/* Number of blocks of a batch that were not handed out. */
HAK_INLINE uint32_t hak_bin_batch_left(const hak_heap_t *heap, uint32_t cls) {
  return hak_bin_blocks_below(&heap->batch[cls - 1].top, &heap->info[cls].batch_magazine);
}

HAK_INLINE hak_free_block_t **hak_bin_slots(const hak_heap_t *heap, uint32_t cls) {
  return hak_magazine_slots(&heap->info[cls].magazine);
}

/* bin.c: the owner's changes of a bin and its magazine. */

/* Write every block to its slot. Returns how many there are. */
uint32_t hak_bin_settle(hak_heap_t *heap, uint32_t cls);
/* Shrink the bin to `blocks` blocks; the removed ones stay in their slots for the caller. */
void hak_bin_lower(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* Grow the bin to `blocks` blocks; the caller has written the new ones to their slots. */
void hak_bin_raise(hak_heap_t *heap, uint32_t cls, uint32_t blocks);
/* Provide a magazine for `blocks` blocks, and move the bin's blocks there. False: no memory, and nothing changed. */
bool hak_bin_reserve(hak_heap_t *heap, uint32_t cls, uint32_t blocks);

/* Bytes of all blocks in the bins. */
size_t hak_bins_bytes(const hak_heap_t *heap);

/* Limit the room by the capacity and the magazine. A bin may hold more blocks than that. */
HAK_INLINE void hak_bin_set_end(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t capacity = info->buffers_remote ? 0 : hak_bin_capacity(info), blocks = hak_bin_blocks(heap, cls);
  uint32_t size = hak_magazine_size(&info->magazine);
  capacity = capacity < size ? capacity : size;
  heap->bin[cls].end = hak_magazine_slots(&info->magazine) + (capacity > blocks ? capacity : blocks) - 1;
}

/* Pop the newest block and mark it as taken. NULL: the bin is empty, or the block was written to while it was free. */
HAK_INLINE void *hak_bin_pop(hak_heap_t *heap, hak_bin_t *bin) {
  hak_free_block_t *block = bin->head;
  if (HAK_UNLIKELY(block->tag != ((uintptr_t)block ^ heap->key))) {
    return NULL;
  }
  hak_free_block_t **top = atomic_load_explicit(&bin->top, memory_order_relaxed), *next = *top;
  atomic_store_explicit(&bin->top, top - 1, memory_order_relaxed);
  hak_fork_fence();
  bin->head = next;
  hak_fork_fence();
  __builtin_prefetch(next, 1); /* the next call's block, which the processor's cache may have lost */
  return hak_mark_taken(block);
}

/* False: there is no room, or the newest block is this one (a double free). */
HAK_INLINE bool hak_bin_push(hak_heap_t *heap, hak_bin_t *bin, hak_free_block_t *block) {
  hak_free_block_t *head = bin->head, **top = atomic_load_explicit(&bin->top, memory_order_relaxed);
  if (HAK_UNLIKELY(top == bin->end || head == block)) {
    return false;
  }
  block->tag = (uintptr_t)block ^ heap->key;
  top[1] = head;
  hak_fork_fence();
  bin->head = block;
  hak_fork_fence();
  atomic_store_explicit(&bin->top, top + 1, memory_order_relaxed);
  return true;
}
