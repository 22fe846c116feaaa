/* Duty: the cache of free blocks that each thread keeps: one LIFO list a class.
 * Data: a heap belongs to one thread; other threads read `room` and `limit` for statistics and nothing else.
 * Layers below: slab, types.
 *
 *   heap ─ bin[class]    head ─> block ─> block ─> NULL     linked under heap->key
 *        │               room    how many more blocks may be freed into the list before it overflows
 *        └ shelf[class]  current slab, limit, and what the limit adapts to
 *
 *   blocks in the list  =  limit - room          (a closed bin: 0)
 *
 * limit == 0: nothing of the class is cached. A bin of a class up to 64 bytes is closed (room 0) until the thread
 * allocates from it: blocks that others made and this thread frees go to `foreign` instead, and from there back to
 * their slabs, so that two threads do not end up writing to the same cache line. */
#ifndef HAK_CACHE_H
#define HAK_CACHE_H

#include "slab.h"

typedef struct hak_bin {
  hak_free_block_t *head;
  _Atomic int32_t room;
  uint32_t inverse; /* of the class's block size: see hak_is_block_start */
} hak_bin_t;

typedef struct hak_shelf {
  hak_slab_t *current; /* refills come from here; may be NULL */
  hak_free_block_t *foreign;
  _Atomic uint32_t foreign_count;
  _Atomic int32_t limit;
  uint32_t refill_blocks; /* wanted by the next refill */
  uint32_t returned;      /* blocks that overflowed and were not fetched again yet */
  uint32_t streak;        /* overflows in a row without a refill between them */
  _Atomic bool closed;
  bool busy;                    /* a refill or overflow since the last look for idle lists */
  bool adaptive;                /* false: the limit was set by an option */
  int32_t seen_room;            /* at the last look for idle lists */
  hak_free_block_t *seen_head;  /* the same */
  _Atomic uint64_t asked_bytes; /* a sample, at every refill: sizes asked for, and how many */
  _Atomic uint64_t asked_count;
} hak_shelf_t;

typedef struct hak_heap {
  _Alignas(HAK_CACHE_LINE) uintptr_t key;
  hak_bin_t bin[HAK_BIN_COUNT];
  hak_shelf_t shelf[HAK_BIN_COUNT];
  struct hak_heap *next;      /* list of all heaps */
  struct hak_heap *next_idle; /* list of heaps without a thread */
  bool busy;                  /* a thread has it */
  uint32_t events;            /* refills and overflows */
  uint32_t flush_seen;
  bool heap_shrinks;   /* the process used fewer units at this look than at the one before */
  size_t used_seen;    /* units in use at the last look */
  size_t budget_bytes; /* sum of limit * block bytes over the adaptive classes */
  uint64_t looked_ms;  /* when idle lists were last looked for */
} hak_heap_t;

/* A thread takes the cache: every class gets the limit that the options say. Every list is empty. */
void hak_cache_open(hak_heap_t *heap);
/* Return everything that a thread cached which did not survive a fork, perhaps in the middle of something. */
void hak_cache_close_orphan(hak_heap_t *heap);
/* Caches that a thread has now, as the owner of their list says; at least 1. */
void hak_cache_set_open(size_t caches);
size_t hak_caches_open(void);

/* The list of the class is empty: fetch blocks and return one. NULL: no memory. `bytes`: what was asked for. */
void *hak_cache_refill(hak_heap_t *heap, uint32_t cls, size_t bytes);
/* The list has no room: make some, or return the block to its slab. `block` is the start of a block. */
void hak_cache_overflow(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block);
/* Return everything to the slabs. Names `function` when a damaged block turns up. */
void hak_cache_flush(hak_heap_t *heap, const char *function);
/* Look for blocks that were freed twice or damaged since; changes nothing and takes no lock, for the end of a process
 * may come in a signal handler. */
void hak_cache_verify(hak_heap_t *heap, const char *function);
/* Ask every thread to flush at its next refill or overflow. */
void hak_cache_request_flush(void);

/* Whether the block is in the thread's list; walks it. */
bool hak_cache_holds(const hak_heap_t *heap, uint32_t cls, const hak_free_block_t *wanted);

void hak_cache_check(hak_heap_t *heap);

HAK_INLINE int32_t hak_bin_room(hak_bin_t *bin) {
  return atomic_load_explicit(&bin->room, memory_order_relaxed);
}
HAK_INLINE void hak_bin_set_room(hak_bin_t *bin, int32_t room) {
  atomic_store_explicit(&bin->room, room, memory_order_relaxed);
}
HAK_INLINE void hak_bin_push(hak_heap_t *heap, hak_bin_t *bin, hak_free_block_t *block) {
  hak_free_block_t *head = bin->head;
  hak_bin_set_room(bin, hak_bin_room(bin) - 1);
  block->link = head;
  block->tag = (uintptr_t)head ^ heap->key;
  bin->head = block;
}

#endif
