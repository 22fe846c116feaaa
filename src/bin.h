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
 * A bin that is closed has no room: blocks that others made and this thread frees go to `outgoing`. */
#pragma once

#include "types.h"

typedef struct hak_bin {
  hak_free_block_t *head;
  _Atomic int32_t room;
  uint32_t inverse, limit; /* of the class: see hak_is_block_start */
  uint32_t unused;
} hak_bin_t;

_Static_assert(sizeof(hak_bin_t) == HAK_BIN_WORDS * sizeof(void *), "codes of classes lead to bins");

typedef struct hak_bin_info {
  hak_slab_t *current;        /* refills come from here; may be NULL */
  hak_free_block_t *outgoing; /* a list */
  _Atomic uint32_t outgoing_count;
  _Atomic int32_t capacity;
  uint32_t refill_blocks; /* wanted by the next refill */
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
  hak_bin_t bin[HAK_BIN_COUNT];
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

HAK_INLINE int32_t hak_bin_room(hak_bin_t *bin) {
  return atomic_load_explicit(&bin->room, memory_order_relaxed);
}
HAK_INLINE void hak_bin_set_room(hak_bin_t *bin, int32_t room) {
  atomic_store_explicit(&bin->room, room, memory_order_relaxed);
}
HAK_INLINE int32_t hak_bin_capacity(const hak_bin_info_t *info) {
  return atomic_load_explicit(&info->capacity, memory_order_relaxed);
}
HAK_INLINE void hak_bin_push(hak_heap_t *heap, hak_bin_t *bin, hak_free_block_t *block) {
  hak_bin_set_room(bin, hak_bin_room(bin) - 1);
  hak_link(block, bin->head, heap->key);
  bin->head = block;
}
