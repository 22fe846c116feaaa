/* Statistics of the heap as numbers, text and JSON. The API and the report at exit call it. */
#include "stats.h"

#include "hakmem.h"
#include "hardened/hardened.h"
#include "records.h"

#include <errno.h>
#include <string.h>

static void add_mixed(const hak_slab_t *slab, hak_slab_totals_t *totals) {
  totals[HAK_CLASS_MIXED].slabs++;
  for (uint32_t i = 0; i < HAK_BLOCKS_MAX; i++) {
    uint32_t cls = atomic_load_explicit(&slab->mixed->cls[i], memory_order_relaxed);
    totals[cls].bump_blocks++;
    totals[cls].free_blocks += atomic_load_explicit(&slab->bits[i / 64], memory_order_relaxed) >> i % 64 & 1;
  }
}

static void add_to_totals(hak_slab_t *slab, void *context) {
  if (atomic_load_explicit(&slab->cls, memory_order_acquire) == HAK_CLASS_MIXED) { /* pairs with make_slab of mixed.c */
    add_mixed(slab, context);
    return;
  }
  hak_slab_totals_t *totals = (hak_slab_totals_t *)context + atomic_load_explicit(&slab->cls, memory_order_relaxed);
  uint32_t count = hak_slab_count(slab), bump = hak_slab_bump(slab);
  totals->slabs++;
  totals->bump_blocks += bump;
  totals->free_blocks += count <= bump ? count : bump; /* a return in progress shows as a huge count */
}

void hak_stats_slabs(hak_slab_totals_t totals[HAK_BIN_COUNT]) {
  memset(totals, 0, HAK_BIN_COUNT * sizeof *totals);
  hak_arena_each_slab(add_to_totals, totals);
  totals[HAK_CLASS_NONE] = (hak_slab_totals_t){0, 0, 0};
}

void hak_stats_heaps(hak_heap_totals_t totals[HAK_BIN_COUNT]) {
  for (uint32_t c = 0; c < HAK_BIN_COUNT; c++) {
    size_t waiting = c < HAK_CLASS_COUNT ? hak_depot_count(c) + hak_framed_waiting(c) + hak_ended_blocks(c) : 0;
    totals[c] = (hak_heap_totals_t){.cached_blocks = waiting};
  }
  hak_lock(&hak_heaps_lock);
  for (hak_heap_t *heap = hak_heaps_all; heap; heap = heap->next) {
    for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
      hak_bin_info_t *info = &heap->info[c];
      totals[c].cached_blocks += heap->filled ? hak_bin_blocks(heap, c) + hak_quarantine_blocks(heap, c) : 0;
      totals[c].cached_blocks += heap->filled && c <= HAK_BATCH_LAST ? hak_bin_batch_left(heap, c) : 0;
      totals[c].cached_blocks += atomic_load_explicit(&info->remote_count, memory_order_relaxed);
      totals[c].asked_bytes += atomic_load_explicit(&info->asked_bytes, memory_order_relaxed);
      totals[c].asked_count += atomic_load_explicit(&info->asked_count, memory_order_relaxed);
    }
  }
  hak_unlock(&hak_heaps_lock);
}

static size_t at_most(size_t n, size_t most) {
  return n < most ? n : most;
}

void hak_stats_read(hak_stats_t *stats) {
  hak_slab_totals_t *slabs = stats->slabs;
  const hak_heap_totals_t *heaps = stats->heaps;
  memset(stats, 0, sizeof *stats);
  hak_stats_heaps(stats->heaps);
  hak_stats_slabs(slabs);
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_class_stats_t *class = &stats->classes[c];
    class->block_bytes = hak_class_sizes[c];
    class->slabs = slabs[c].slabs;
    class->free_blocks = slabs[c].free_blocks;
    if (hak_class_is_run((uint32_t)c)) {
      slabs[c].bump_blocks = hak_arena_runs((uint32_t)c);
    }
    class->cached_blocks = at_most(heaps[c].cached_blocks, slabs[c].bump_blocks - slabs[c].free_blocks);
    class->live_blocks =
        slabs[c].bump_blocks - class->free_blocks - class->cached_blocks + hak_records_out((uint32_t)c);
    if (heaps[c].asked_count > 0) {
      size_t mean = heaps[c].asked_bytes / heaps[c].asked_count;
      class->rounding_bytes = (class->block_bytes - at_most(mean, class->block_bytes)) * class->live_blocks;
    }
    stats->live_bytes += class->live_blocks * class->block_bytes;
    stats->cached_bytes += class->cached_blocks * class->block_bytes;
    stats->free_bytes += class->free_blocks * class->block_bytes;
    stats->rounding_bytes += class->rounding_bytes;
  }
  stats->huge_blocks = atomic_load_explicit(&hak_huge_live, memory_order_relaxed);
  stats->huge_bytes = atomic_load_explicit(&hak_huge_live_bytes, memory_order_relaxed);
  stats->meta_bytes = hak_meta_bytes();
  stats->threads = hak_policy_caches_open();
  stats->arena = hak_arena_totals();
  stats->arena.used_slices += stats->arena.apart_slices;
  stats->arena.mapped_slices += stats->arena.apart_slices;
  hak_os_read_counts(&stats->os);
  hak_lock_read_waits(stats->lock_waits);
}

static void *dropped;

hak_stats_t *hak_stats_take(void) {
  hak_stats_t *stats = hak_meta_take(&dropped, sizeof *stats);
  if (stats) {
    hak_region_table_t *regions = stats->regions;
    hak_stats_read(stats);
    stats->regions = hak_region_stats_read(regions);
    stats->region_bytes = stats->regions ? stats->regions->live_bytes : 0;
  }
  return stats;
}

void hak_stats_give(hak_stats_t *stats) {
  if (stats) {
    hak_meta_drop(&dropped, stats);
  }
}

/* A table of numbers under one heading, for JSON and text. */
enum { TABLES = 3, ROWS_MAX = 14 };
typedef struct table {
  const char *key, *title;
  struct {
    const char *name; /* NULL after the last one */
    uint64_t value;
  } row[ROWS_MAX + 1];
} table_t;

static void make_tables(const hak_stats_t *stats, table_t tables[TABLES]) {
  const hak_os_counts_t *os = &stats->os;
  const uint64_t *waits = stats->lock_waits;
#define HAK_TOTAL(name, metric, help, value) {name, value},
#define HAK_TEXT_TOTAL(name, value) {name, value},
#define HAK_GAUGE(metric, help, value)
#define CALL(name) {#name, os->name},
  tables[0] = (table_t){"totals",
                        "hakmem statistics (bytes, blocks)",
                        {
#include "totals.def"
                        }};
  tables[1] = (table_t){"os_calls", "system calls", {HAK_OS_CALLS(CALL){"bytes_mapped", os->bytes_mapped_total}}};
  tables[2] = (table_t){"lock_waits",
                        "waits for locks",
                        {{"below_1us", waits[0]},
                         {"below_10us", waits[1]},
                         {"below_100us", waits[2]},
                         {"below_1ms", waits[3]},
                         {"below_10ms", waits[4]},
                         {"longer", waits[5]}}};
}

static void put_json(hak_text_t *text, const hak_stats_t *stats) {
  table_t tables[TABLES];
  make_tables(stats, tables);
  hak_text_put(text, "{\"version\":%zu,", (size_t)HAKMEM_VERSION);
  for (const table_t *table = tables; table < tables + TABLES; table++) {
    hak_text_put(text, "\"%s\":{", table->key);
    for (size_t i = 0; table->row[i].name; i++) {
      hak_text_put(text, "%s\"%s\":%zu", i ? "," : "", table->row[i].name, table->row[i].value);
    }
    hak_text_put(text, "},");
  }
  hak_text_put(text, "\"classes\":[");
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    const hak_class_stats_t *class = &stats->classes[c];
    hak_text_put(text, "%s{\"block_bytes\":%zu,\"band\":%zu,", c > 1 ? "," : "", class->block_bytes,
                 (size_t)hak_class_bands[c]);
    hak_text_put(text, "\"slabs\":%zu,\"live_blocks\":%zu,\"cached_blocks\":%zu,", class->slabs, class->live_blocks,
                 class->cached_blocks);
    hak_text_put(text, "\"free_blocks\":%zu,\"rounding_bytes\":%zu}", class->free_blocks, class->rounding_bytes);
  }
  hak_text_put(text, "],");
  hak_region_stats_put_json(text, stats->regions);
  hak_text_put(text, "}");
}

static hak_text_t as_text(hak_stats_t *stats) {
  hak_text_t text = hak_text_on(stats->text, sizeof stats->text);
  table_t tables[TABLES];
  make_tables(stats, tables);
  for (const table_t *table = tables; table < tables + TABLES; table++) {
    hak_text_put(&text, "%s\n", table->title);
    for (size_t i = 0; table->row[i].name; i++) {
      hak_text_put(&text, "%-24s%16zu\n", table->row[i].name, table->row[i].value);
    }
  }
  hak_text_put(&text, "class      slabs         live       cached         free     rounding\n");
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    const hak_class_stats_t *class = &stats->classes[c];
    if (class->slabs > 0 || class->live_blocks + class->cached_blocks > 0) {
      hak_text_put(&text, "%7zu%9zu%13zu%13zu%13zu%13zu\n", class->block_bytes, class->slabs, class->live_blocks,
                   class->cached_blocks, class->free_blocks, class->rounding_bytes);
    }
  }
  hak_region_stats_put_text(&text, stats->regions);
  return text;
}

size_t hak_stats_tell(char *buffer, size_t capacity, void (*put)(hak_text_t *text, const hak_stats_t *stats)) {
  int saved = errno;
  hak_stats_t *stats = hak_stats_take();
  hak_text_t text = hak_text_on(buffer, capacity);
  if (stats) {
    put(&text, stats);
  }
  hak_stats_give(stats);
  errno = saved;
  return text.length;
}

size_t hak_stats_json(char *buffer, size_t capacity) {
  return hak_stats_tell(buffer, capacity, put_json);
}

void hak_stats_print(FILE *out) {
  hak_stats_t *stats = hak_stats_take();
  if (stats) {
    (void)as_text(stats);
    fputs(stats->text, out);
  }
  hak_stats_give(stats);
}

static void report_os_calls(hak_stats_t *stats) {
  hak_text_t text = hak_text_on(stats->text, sizeof stats->text);
  const hak_os_counts_t *os = &stats->os;
  hak_text_put(&text, "[SS_OS_STATS] alloc=%zu free=%zu madvise=%zu mmap_total=%zu munmap=%zu mprotect=%zu ",
               stats->arena.mapped_ever / HAK_CHUNK_SLICES, stats->arena.unmapped_ever / HAK_CHUNK_SLICES, os->madvise,
               os->mmap, os->munmap, os->mprotect);
  hak_text_put(&text, "mremap=%zu failed=%zu\n", os->mremap, os->failed);
  hak_text_report(&text);
}

void hak_stats_at_exit(bool inside) {
  bool all = hak_option(HAK_OPTION_STATS), os_calls = hak_option(HAK_OPTION_OS_STATS);
  if (inside && (all || os_calls)) {
    hak_text_say("hakmem: no statistics: a signal handler ended the process during a call of the heap\n");
    return;
  }
  hak_stats_t *stats = all || os_calls ? hak_stats_take() : NULL;
  if (stats && all) {
    hak_text_t text = as_text(stats);
    hak_text_report(&text);
  }
  if (stats && os_calls) {
    report_os_calls(stats);
  }
  hak_stats_give(stats);
}
