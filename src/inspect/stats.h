/* Duty: statistics of the heap, as numbers, text and JSON. Data: none. The readers read the counters of the layers
 * below while other threads run, so sums may be a moment apart. No count is ever negative, or larger than the count
 * that contains it. Layers below: heap, slab, huge, arena, options, text, os. */
#pragma once

#include "region_stats.h"

/* Number of blocks of each class, by place. */
typedef struct hak_stats_slabs {
  size_t slabs, bump_blocks, free_blocks; /* blocks ever handed out; the free ones among them, in slabs */
} hak_slab_totals_t;
/* Totals over all slabs, by class; exact while no thread returns blocks. */
void hak_stats_slabs(hak_slab_totals_t totals[HAK_BIN_COUNT]);

typedef struct hak_stats_heaps {
  size_t cached_blocks, asked_bytes, asked_count;
} hak_heap_totals_t;
/* Over all caches and depots. */
void hak_stats_heaps(hak_heap_totals_t totals[HAK_BIN_COUNT]);

typedef struct hak_class_stats {
  size_t block_bytes, slabs;
  size_t live_blocks;    /* handed out */
  size_t cached_blocks;  /* in thread caches */
  size_t free_blocks;    /* in slabs */
  size_t rounding_bytes; /* live * mean (block size - request), estimated from the requests that reached the slabs */
} hak_class_stats_t;

typedef struct hak_stats {
  hak_class_stats_t classes[HAK_BIN_COUNT];
  size_t live_bytes, cached_bytes, free_bytes, rounding_bytes; /* sums over the classes */
  size_t huge_blocks, huge_bytes;                              /* live */
  size_t region_bytes;                                         /* of live blocks of regions */
  size_t meta_bytes, threads;
  hak_arena_totals_t arena;
  hak_os_counts_t os;
  uint64_t lock_waits[HAK_LOCK_WAIT_COUNTS];
  /* Scratch space for the thread that formats the statistics. */
  hak_slab_totals_t slabs[HAK_BIN_COUNT];
  hak_heap_totals_t heaps[HAK_BIN_COUNT];
  hak_region_table_t *regions; /* NULL: there was never a region */
  char text[12 << 10];
} hak_stats_t;

/* The system calls that are counted one by one; `failed` counts all refused calls. */
#define HAK_OS_CALLS(CALL) CALL(mmap) CALL(munmap) CALL(madvise) CALL(mprotect) CALL(mremap) CALL(failed)

void hak_stats_read(hak_stats_t *stats);
/* Like hak_stats_read, for threads with little stack; free the result with hak_stats_give. NULL: no memory. */
hak_stats_t *hak_stats_take(void);
void hak_stats_give(hak_stats_t *stats); /* accepts NULL */

/* What OpenMetrics wants before the values of a metric. */
void hak_metrics_put_head(hak_text_t *text, const char *name, const char *unit, const char *type, const char *help);

/* Format the statistics into a buffer, up to its capacity; `put` writes the text. Keeps errno. Returns the full
 * length. */
size_t hak_stats_tell(char *buffer, size_t capacity, void (*put)(hak_text_t *text, const hak_stats_t *stats));

/* Write the reports that the options ask for when the process ends. If `inside`, a signal handler ends it while the
 * thread holds a lock, so the reports have no figures. */
void hak_stats_at_exit(bool inside);
