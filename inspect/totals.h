/* Duty: how many blocks of each class lie where. Data: none; reads what other threads change meanwhile. Layers below:
 * heap, depot, slab, arena. */
#pragma once

#include "heap.h"
#include "slab.h"

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
