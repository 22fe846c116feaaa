/* Duty: what a thread's cache consists of: one LIFO list of free blocks a class.
 * Data: a heap belongs to one thread; other threads read `room` and `capacity` for statistics and nothing else.
 * Layers below: types.
 *
 *   heap ─ bin[class]   head ─> block ─> block ─> HAK_LIST_END     linked under heap->key
 *        │              room    how many more blocks may be freed into the list before it overflows
 *        └ info[class]  capacity and what it adapts to (policy.c), current slab
 *
 *   blocks in the list  =  capacity - room          (a closed bin: 0)
 *
 * A bin that is closed has no room: blocks that others made and this thread frees go to `outgoing`.
 *
 * While the sampler is on, malloc takes blocks of up to 4 KiB from grant[class - 1]: blocks of the bin that were
 * counted before. Its room is less than 0 by as many as are left of them. */
#pragma once

#include "types.h"

typedef struct hak_bin {
  hak_free_block_t *head;
  _Atomic int32_t room;
  uint32_t inverse, limit; /* of the class: see hak_is_block_start */
  uint32_t unused;
} hak_bin_t;

_Static_assert(sizeof(hak_bin_t) == HAK_BIN_WORDS * sizeof(void *), "codes of classes lead to bins");

/* Begins as a bin does, as far as hak_bin_pop looks. */
typedef struct hak_grant {
  hak_free_block_t *head;
  _Atomic int32_t room;
  uint32_t unused;
} hak_grant_t;

_Static_assert(sizeof(hak_grant_t) == HAK_GRANT_WORDS * sizeof(void *), "codes of requests lead to grants");
_Static_assert(offsetof(hak_grant_t, room) == offsetof(hak_bin_t, room), "a grant begins as a bin");

typedef struct hak_bin_info {
  hak_slab_t *current;        /* refills come from here; may be NULL */
  hak_free_block_t *outgoing; /* a list */
  _Atomic uint32_t outgoing_count;
  _Atomic int32_t capacity;
  uint32_t sample_left;   /* blocks that may be handed out before the one that is sampled */
  uint32_t grant_least;   /* of what it grants at a time the sampler is content with so many blocks */
  uint32_t refill_blocks; /* wanted by the next refill */
  uint32_t lent;          /* of the capacity: by the sampler, so that grants are worth their call */
  uint32_t returned;      /* blocks that overflowed and were not fetched again yet */
  uint32_t streak;        /* overflows in a row without a refill between them */
  _Atomic bool closed;
  bool busy;                    /* a refill or overflow since the last look for idle lists */
  bool adaptive;                /* false: an option says the capacity */
  uint8_t refills;              /* counted as far as the policy asks */
  int32_t seen_room;            /* at the last look for idle lists */
  hak_free_block_t *seen_head;  /* the same */
  _Atomic uint64_t asked_bytes; /* a sample, at every refill: sizes asked for, and how many */
  _Atomic uint64_t asked_count;
} hak_bin_info_t;

typedef struct hak_heap {
  _Alignas(HAK_CACHE_LINE) uintptr_t key;
  hak_grant_t grant[HAK_GRANT_LAST];
  hak_bin_t bin[HAK_BIN_COUNT];
  uint64_t sample_setting; /* the sampler's, as the thread last saw it */
  uint64_t sample_random;
  hak_bin_info_t info[HAK_BIN_COUNT];
  struct hak_heap *next;      /* list of all heaps */
  struct hak_heap *next_idle; /* list of heaps without a thread */
  bool busy;                  /* a thread has it */
  uint32_t thread;            /* by its number in the system: the one that has it, or had it last */
  uint32_t forks;             /* before which the thread began, or went on: an orphan is behind the process's count */
  uint32_t events;            /* refills and overflows */
  uint32_t flush_seen;
  bool heap_shrinks;         /* the process used less at this look than at the one before */
  size_t used_seen;          /* slices in use at the last look */
  size_t budget_bytes;       /* sum of capacity * block bytes over the adaptive classes up to 4 KiB */
  size_t large_budget_bytes; /* and over those above */
  size_t granted_bytes;      /* the same, of what was granted before it was earned */
  uint64_t looked_ms;        /* when idle lists were last looked for */
} hak_heap_t;

_Static_assert(offsetof(hak_heap_t, bin) == offsetof(hak_heap_t, grant) + HAK_BINS_AT * sizeof(void *),
               "behind the grants");

/* An initialiser for a heap that has no block. */
#define HAK_HEAP_EMPTY \
  { \
    .key = 1, .bin = {[0 ... HAK_BIN_COUNT - 1] = {.head = HAK_LIST_END}}, .grant = { \
      [0 ... HAK_GRANT_LAST - 1] = {.head = HAK_LIST_END} \
    } \
  }

/* Blocks of a grant that were not handed out. */
HAK_INLINE uint32_t hak_grant_left(hak_grant_t *grant) {
  int32_t room = atomic_load_explicit(&grant->room, memory_order_relaxed);
  return room < 0 ? (uint32_t)-room : 0;
}
HAK_INLINE int32_t hak_bin_room(hak_bin_t *bin) {
  return atomic_load_explicit(&bin->room, memory_order_relaxed);
}
HAK_INLINE void hak_bin_set_room(hak_bin_t *bin, int32_t room) {
  atomic_store_explicit(&bin->room, room, memory_order_relaxed);
}
HAK_INLINE int32_t hak_bin_capacity(const hak_bin_info_t *info) {
  return atomic_load_explicit(&info->capacity, memory_order_relaxed);
}
/* Out of the bin before into the grant: in between, a fork loses it in the child, and has it nowhere twice. */
HAK_INLINE void hak_grant_hand_over(hak_bin_t *bin, hak_grant_t *grant, hak_free_block_t *first, hak_free_block_t *rest,
                                    int32_t blocks) {
  bin->head = rest;
  atomic_signal_fence(memory_order_release);
  grant->head = first;
  atomic_store_explicit(&grant->room, -blocks, memory_order_relaxed);
}
HAK_INLINE void hak_bin_push(hak_heap_t *heap, hak_bin_t *bin, hak_free_block_t *block) {
  hak_bin_set_room(bin, hak_bin_room(bin) - 1);
  hak_link(block, bin->head, heap->key);
  bin->head = block;
}

/* The first block of the list. NULL: the list is empty; or the block was freed twice, or written to while it was free.
 */
HAK_INLINE void *hak_bin_pop(hak_heap_t *heap, hak_bin_t *bin) {
  hak_free_block_t *block = bin->head, *next = block->link;
  if (HAK_UNLIKELY(((uintptr_t)next ^ block->tag) != heap->key)) {
    return NULL;
  }
  __builtin_prefetch(next); /* the next call's block, which may be long out of the cache */
  bin->head = next;
  hak_count_up(&bin->room);
  hak_mark_taken(block); /* a second list that holds it will notice */
  return block;
}
