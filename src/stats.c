#include "stats.h"

#include "hakmem.h"
#include "heap.h"
#include "huge.h"
#include "meta.h"
#include "observe.h"
#include "options.h"
#include "run.h"
#include "slab.h"
#include "text.h"

#include <errno.h>

enum { TEXT_BYTES_MAX = 8 << 10 };

static size_t at_most(size_t n, size_t most) {
  return n < most ? n : most;
}

void hak_stats_read(hak_stats_t *stats) {
  hak_slab_totals_t slabs[HAK_BIN_COUNT];
  hak_heap_totals_t heaps[HAK_BIN_COUNT];
  *stats = (hak_stats_t){0};
  hak_heap_totals(heaps);
  hak_slab_totals(slabs);
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_class_stats_t *class = &stats->classes[c];
    class->block_bytes = hak_class_sizes[c];
    class->slabs = slabs[c].slabs;
    class->free_blocks = slabs[c].free_blocks;
    if (hak_class_is_run((uint32_t)c)) {
      slabs[c].carved_blocks = hak_run_out((uint32_t)c);
    }
    class->cached_blocks = at_most(heaps[c].cached_blocks, slabs[c].carved_blocks - slabs[c].free_blocks);
    class->live_blocks = slabs[c].carved_blocks - class->free_blocks - class->cached_blocks;
    if (heaps[c].asked_count > 0) {
      size_t mean = heaps[c].asked_bytes / heaps[c].asked_count;
      class->rounding_bytes = (class->block_bytes - at_most(mean, class->block_bytes)) * class->live_blocks;
    }
    stats->live_bytes += class->live_blocks * class->block_bytes;
    stats->cached_bytes += class->cached_blocks * class->block_bytes;
    stats->free_bytes += class->free_blocks * class->block_bytes;
    stats->rounding_bytes += class->rounding_bytes;
  }
  hak_huge_totals_t huge = hak_huge_totals();
  stats->huge_blocks = huge.blocks;
  stats->huge_bytes = huge.bytes;
  stats->meta_bytes = hak_meta_bytes();
  stats->threads = hak_caches_open();
  stats->arena = hak_arena_totals();
  hak_os_read_counts(&stats->os);
  hak_lock_read_waits(stats->lock_waits);
}

/* The totals, one row each: name, value. */
#define TOTALS(ROW) \
  ROW("live_bytes", stats->live_bytes + stats->huge_bytes) \
  ROW("small_live_bytes", stats->live_bytes) \
  ROW("large_live_bytes", stats->huge_bytes) \
  ROW("large_live_blocks", stats->huge_blocks) \
  ROW("cached_bytes", stats->cached_bytes) \
  ROW("slab_free_bytes", stats->free_bytes) \
  ROW("rounding_bytes", stats->rounding_bytes) \
  ROW("used_bytes", stats->arena.used_slices << HAK_SLICE_SHIFT) \
  ROW("retained_bytes", stats->arena.dirty_slices << HAK_SLICE_SHIFT) \
  ROW("retain_target_bytes", stats->arena.target_slices << HAK_SLICE_SHIFT) \
  ROW("mapped_bytes", stats->arena.mapped_slices << HAK_SLICE_SHIFT) \
  ROW("metadata_bytes", stats->meta_bytes) \
  ROW("threads", stats->threads)

#define OS_CALLS(ROW) \
  ROW("mmap", stats->os.mmap) \
  ROW("munmap", stats->os.munmap) \
  ROW("madvise", stats->os.madvise) \
  ROW("mprotect", stats->os.mprotect) \
  ROW("mremap", stats->os.mremap) \
  ROW("failed", stats->os.failed) \
  ROW("bytes_mapped", stats->os.bytes_mapped_total)

/* Times that a thread waited for a lock, by how long. */
#define LOCK_WAITS(ROW) \
  ROW("below_1us", stats->lock_waits[0]) \
  ROW("below_10us", stats->lock_waits[1]) \
  ROW("below_100us", stats->lock_waits[2]) \
  ROW("below_1ms", stats->lock_waits[3]) \
  ROW("below_10ms", stats->lock_waits[4]) \
  ROW("longer", stats->lock_waits[5])

typedef struct row {
  const char *name;
  uint64_t value;
} row_t;
#define ROW(name, value) {name, value},

static void json_rows(hak_text_t *text, const row_t *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    hak_text_string(text, i ? ",\"" : "\"");
    hak_text_string(text, rows[i].name);
    hak_text_string(text, "\":");
    hak_text_number(text, rows[i].value);
  }
}

static void text_rows(hak_text_t *text, const row_t *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    hak_text_padded(text, rows[i].name, 24);
    hak_text_column(text, rows[i].value, 16);
    hak_text_string(text, "\n");
  }
}

static void put_json(hak_text_t *text, const hak_stats_t *stats) {
  const row_t totals[] = {TOTALS(ROW)}, os_calls[] = {OS_CALLS(ROW)}, waits[] = {LOCK_WAITS(ROW)};
  hak_text_string(text, "{\"version\":");
  hak_text_number(text, HAKMEM_VERSION);
  hak_text_string(text, ",\"totals\":{");
  json_rows(text, totals, sizeof totals / sizeof *totals);
  hak_text_string(text, "},\"os_calls\":{");
  json_rows(text, os_calls, sizeof os_calls / sizeof *os_calls);
  hak_text_string(text, "},\"lock_waits\":{");
  json_rows(text, waits, sizeof waits / sizeof *waits);
  hak_text_string(text, "},\"classes\":[");
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    const hak_class_stats_t *class = &stats->classes[c];
    const row_t rows[] = {
        {"block_bytes", class->block_bytes},
        {"band", hak_class_bands[c]},
        {"slabs", class->slabs},
        {"live_blocks", class->live_blocks},
        {"cached_blocks", class->cached_blocks},
        {"free_blocks", class->free_blocks},
        {"rounding_bytes", class->rounding_bytes},
    };
    hak_text_string(text, c > 1 ? ",{" : "{");
    json_rows(text, rows, sizeof rows / sizeof *rows);
    hak_text_string(text, "}");
  }
  hak_text_string(text, "]}");
}

static void put_text(hak_text_t *text, const hak_stats_t *stats) {
  const row_t totals[] = {TOTALS(ROW)}, os_calls[] = {OS_CALLS(ROW)}, waits[] = {LOCK_WAITS(ROW)};
  hak_text_string(text, "hakmem statistics (bytes, blocks)\n");
  text_rows(text, totals, sizeof totals / sizeof *totals);
  hak_text_string(text, "system calls\n");
  text_rows(text, os_calls, sizeof os_calls / sizeof *os_calls);
  hak_text_string(text, "waits for locks\n");
  text_rows(text, waits, sizeof waits / sizeof *waits);
  hak_text_string(text, "class      slabs         live       cached         free     rounding\n");
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    const hak_class_stats_t *class = &stats->classes[c];
    if (class->slabs > 0 || class->live_blocks + class->cached_blocks > 0) {
      hak_text_column(text, class->block_bytes, 7);
      hak_text_column(text, class->slabs, 9);
      hak_text_column(text, class->live_blocks, 13);
      hak_text_column(text, class->cached_blocks, 13);
      hak_text_column(text, class->free_blocks, 13);
      hak_text_column(text, class->rounding_bytes, 13);
      hak_text_string(text, "\n");
    }
  }
}

size_t hak_stats_json(char *buffer, size_t capacity) {
  int saved = errno;
  hak_stats_t stats;
  hak_stats_read(&stats);
  hak_text_t text = hak_text_on(buffer, capacity);
  put_json(&text, &stats);
  errno = saved;
  return text.length;
}

void hak_stats_print(FILE *out) {
  hak_stats_t stats;
  char buffer[TEXT_BYTES_MAX];
  hak_stats_read(&stats);
  hak_text_t text = hak_text_on(buffer, sizeof buffer);
  put_text(&text, &stats);
  fputs(buffer, out);
}

static void print_os_stats(const hak_stats_t *stats) {
  char buffer[256];
  hak_text_t text = hak_text_on(buffer, sizeof buffer);
  const row_t rows[] = {{"alloc", stats->arena.mapped_ever / HAK_CHUNK_SLICES},
                        {"free", stats->arena.unmapped_ever / HAK_CHUNK_SLICES},
                        {"madvise", stats->os.madvise},
                        {"mmap_total", stats->os.mmap},
                        {"munmap", stats->os.munmap},
                        {"mprotect", stats->os.mprotect},
                        {"mremap", stats->os.mremap},
                        {"failed", stats->os.failed}};
  hak_text_string(&text, "[SS_OS_STATS]");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hak_text_string(&text, " ");
    hak_text_string(&text, rows[i].name);
    hak_text_string(&text, "=");
    hak_text_number(&text, rows[i].value);
  }
  hak_text_string(&text, "\n");
  hak_text_report(&text);
}

void hak_stats_at_exit(void) {
  hak_stats_t stats;
  hak_observe_print();
  if (!hak_options.stats && !hak_options.os_stats) {
    return;
  }
  hak_stats_read(&stats);
  if (hak_options.stats) {
    char buffer[TEXT_BYTES_MAX];
    hak_text_t text = hak_text_on(buffer, sizeof buffer);
    put_text(&text, &stats);
    hak_text_report(&text);
  }
  if (hak_options.os_stats) {
    print_os_stats(&stats);
  }
}
