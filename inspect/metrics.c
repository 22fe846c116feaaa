/* The statistics as OpenMetrics, in the words that users know from other allocators. */
#include "geometry.h"
#include "hakmem.h"
#include "stats.h"

typedef struct metric {
  const char *name, *help;
  size_t value;
} metric_t;

static void put_head(hak_text_t *text, const char *name, const char *unit, const char *type, const char *help) {
  hak_text_put(text, "# TYPE hakmem_%s%s%s %s\n", name, *unit ? "_" : "", unit, type);
  if (*unit) {
    hak_text_put(text, "# UNIT hakmem_%s_%s %s\n", name, unit, unit);
  }
  hak_text_put(text, "# HELP hakmem_%s%s%s %s\n", name, *unit ? "_" : "", unit, help);
}

static void put_gauges(hak_text_t *text, const hak_stats_t *stats) {
  const hak_arena_totals_t *arena = &stats->arena;
  size_t active = arena->used_slices << HAK_SLICE_SHIFT, dirty = arena->dirty_slices << HAK_SLICE_SHIFT;
  size_t mapped = arena->mapped_slices << HAK_SLICE_SHIFT, used = active + dirty;
  const metric_t gauges[] = {
      {"allocated", "In blocks that are handed out, as large as their class.", stats->live_bytes + stats->huge_bytes},
      {"active", "In slabs and blocks, with all their free space.", active},
      {"dirty", "Free, and perhaps resident: what may go back to the system.", dirty},
      {"metadata", "Of the allocator's own objects.", stats->meta_bytes},
      {"resident", "Active, dirty and metadata: the most that can be resident.", used + stats->meta_bytes},
      {"mapped", "Mapped for blocks.", mapped},
      {"retained", "Mapped, free and given back: address space only.", mapped > used ? mapped - used : 0},
      {"cached", "Of free blocks in caches of threads, and on their way between threads.", stats->cached_bytes},
      {"slab_free", "Of free blocks in slabs.", stats->free_bytes},
      {"rounding", "Of blocks up to 1 MiB, what is beyond the sizes asked for: an estimate.", stats->rounding_bytes},
  };
  for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++) {
    put_head(text, gauges[i].name, "bytes", "gauge", gauges[i].help);
    hak_text_put(text, "hakmem_%s_bytes %zu\n", gauges[i].name, gauges[i].value);
  }
  put_head(text, "threads", "", "gauge", "Threads that have a cache.");
  hak_text_put(text, "hakmem_threads %zu\n", stats->threads);
}

static void put_calls(hak_text_t *text, const hak_os_counts_t *os) {
  const metric_t calls[] = {{"mmap", "", os->mmap},         {"munmap", "", os->munmap}, {"madvise", "", os->madvise},
                            {"mprotect", "", os->mprotect}, {"mremap", "", os->mremap}, {"failed", "", os->failed}};
  put_head(text, "os_calls", "", "counter",
           "System calls that concern memory; failed: those of all that were refused.");
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    hak_text_put(text, "hakmem_os_calls_total{call=\"%s\"} %zu\n", calls[i].name, calls[i].value);
  }
}

typedef enum state { LIVE, CACHED, FREE, STATES } state_t;

static size_t blocks_of(const hak_class_stats_t *class, state_t state) {
  return state == LIVE ? class->live_blocks : state == CACHED ? class->cached_blocks : class->free_blocks;
}

/* Blocks by size, one histogram a state. */
static void put_sizes(hak_text_t *text, const hak_stats_t *stats) {
  static const char *const names[STATES] = {"live", "cached", "free"};
  put_head(text, "block_size", "bytes", "gaugehistogram", "Blocks by size: handed out, in caches, free in slabs.");
  for (state_t state = LIVE; state < STATES; state++) {
    size_t count = 0, bytes = 0;
    for (int c = 1; c < HAK_CLASS_COUNT; c++) {
      const hak_class_stats_t *class = &stats->classes[c];
      count += blocks_of(class, state);
      bytes += blocks_of(class, state) * class->block_bytes;
      hak_text_put(text, "hakmem_block_size_bytes_bucket{state=\"%s\",le=\"%zu.0\"} %zu\n", names[state],
                   class->block_bytes, count);
    }
    count += state == LIVE ? stats->huge_blocks : 0;
    bytes += state == LIVE ? stats->huge_bytes : 0;
    hak_text_put(text, "hakmem_block_size_bytes_bucket{state=\"%s\",le=\"+Inf\"} %zu\n", names[state], count);
    hak_text_put(text, "hakmem_block_size_bytes_gcount{state=\"%s\"} %zu\n", names[state], count);
    hak_text_put(text, "hakmem_block_size_bytes_gsum{state=\"%s\"} %zu\n", names[state], bytes);
  }
}

static void put_all(hak_text_t *text, const hak_stats_t *stats) {
  put_gauges(text, stats);
  put_calls(text, &stats->os);
  put_sizes(text, stats);
  hak_text_put(text, "# EOF\n");
}

size_t hak_stats_openmetrics(char *buffer, size_t capacity) {
  return hak_stats_tell(buffer, capacity, put_all);
}
