#include "totals.h"

#include "arena.h"
#include "depot.h"

#include <string.h>

static void add_to_totals(hak_slab_t *slab, void *context) {
  hak_slab_totals_t *totals = (hak_slab_totals_t *)context + atomic_load_explicit(&slab->cls, memory_order_relaxed);
  uint32_t count = hak_slab_count(slab), carved = hak_slab_carved(slab);
  totals->slabs++;
  totals->carved_blocks += carved;
  totals->free_blocks += count <= carved ? count : carved; /* a return in flight shows as a huge count */
}

void hak_slab_totals(hak_slab_totals_t totals[HAK_BIN_COUNT]) {
  memset(totals, 0, HAK_BIN_COUNT * sizeof *totals);
  hak_arena_each_slab(add_to_totals, totals);
  totals[HAK_CLASS_NONE] = (hak_slab_totals_t){0, 0, 0};
}

void hak_heap_totals(hak_heap_totals_t totals[HAK_BIN_COUNT]) {
  for (uint32_t c = 0; c < HAK_BIN_COUNT; c++) {
    totals[c] = (hak_heap_totals_t){.cached_blocks = c < HAK_RUN_FIRST ? hak_depot_count(c) : 0};
  }
  hak_lock(&hak_heaps_lock);
  for (hak_heap_t *heap = hak_heaps_all; heap; heap = heap->next) {
    for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
      hak_bin_info_t *info = &heap->info[c];
      totals[c].cached_blocks += heap->busy ? hak_bin_blocks(heap, c) : 0;
      totals[c].cached_blocks += heap->busy && c <= HAK_GRANT_LAST ? hak_grant_left(heap, c) : 0;
      totals[c].cached_blocks += atomic_load_explicit(&info->outgoing, memory_order_relaxed);
      totals[c].asked_bytes += atomic_load_explicit(&info->asked_bytes, memory_order_relaxed);
      totals[c].asked_count += atomic_load_explicit(&info->asked_count, memory_order_relaxed);
    }
  }
  hak_unlock(&hak_heaps_lock);
}
