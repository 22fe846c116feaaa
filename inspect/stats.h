/* Duty: what the heap holds, as numbers, text and JSON. Data: none; reads the counters of the layers below while
 * other threads run, so sums may be a moment apart, but no count is ever negative or larger than what contains it.
 * Layers below: heap, slab, huge, arena, options, text, os. */
#pragma once

#include "arena.h"
#include "heap.h"
#include "lock.h"
#include "os.h"
#include "text.h"

/* How many blocks of each class lie where. */
typedef struct hak_slab_totals {
  size_t slabs, carved_blocks, free_blocks; /* free: carved, and lying in a slab; never more than carved */
} hak_slab_totals_t;
/* All slabs, by class; exact when no return is in flight. */
void hak_slab_totals(hak_slab_totals_t totals[HAK_BIN_COUNT]);

typedef struct hak_heap_totals {
  size_t cached_blocks, asked_bytes, asked_count;
} hak_heap_totals_t;
/* All caches, and what is on its way between threads. */
void hak_heap_totals(hak_heap_totals_t totals[HAK_BIN_COUNT]);

typedef struct hak_class_stats {
  size_t block_bytes, slabs;
  size_t live_blocks;    /* handed out */
  size_t cached_blocks;  /* in thread caches */
  size_t free_blocks;    /* in slabs */
  size_t rounding_bytes; /* estimated from the requests that reached the slabs: live * mean (block size - request) */
} hak_class_stats_t;

typedef struct hak_stats {
  hak_class_stats_t classes[HAK_BIN_COUNT];
  size_t live_bytes, cached_bytes, free_bytes, rounding_bytes; /* of the classes */
  size_t huge_blocks, huge_bytes;                              /* live */
  size_t meta_bytes, threads;
  hak_arena_totals_t arena;
  hak_os_counts_t os;
  uint64_t lock_waits[HAK_LOCK_WAIT_COUNTS];
  /* of who reads them, and prints them */
  hak_slab_totals_t slabs[HAK_BIN_COUNT];
  hak_heap_totals_t heaps[HAK_BIN_COUNT];
  char text[8 << 10];
  struct hak_stats *next;
} hak_stats_t;

/* The system calls that are counted one by one; failed: those of all that were refused. */
#define HAK_OS_CALLS(CALL) CALL(mmap) CALL(munmap) CALL(madvise) CALL(mprotect) CALL(mremap) CALL(failed)

void hak_stats_read(hak_stats_t *stats);
/* The same where a thread's stack may not have the room: to be given back. NULL: no memory. */
hak_stats_t *hak_stats_take(void);
void hak_stats_give(hak_stats_t *stats); /* or NULL */
extern hak_lock_t hak_stats_lock;

/* Into a buffer, as much of it as fits, what `put` makes of them; errno stays. Returns the length of all of it. */
size_t hak_stats_tell(char *buffer, size_t capacity, void (*put)(hak_text_t *text, const hak_stats_t *stats));

/* What the options ask for when the process ends. */
void hak_stats_at_exit(void);
