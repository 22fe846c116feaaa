/* The statistics as OpenMetrics, with the metric names of other allocators. */
#include "hakmem.h"
#include "stats.h"

void hak_metrics_put_head(hak_text_t *text, const char *name, const char *unit, const char *type, const char *help) {
  hak_text_put(text, "# TYPE hakmem_%s %s\n", name, type);
  if (*unit) {
    hak_text_put(text, "# UNIT hakmem_%s %s\n", name, unit);
  }
  hak_text_put(text, "# HELP hakmem_%s %s\n", name, help);
}

static void put_gauge(hak_text_t *text, const char *name, const char *unit, const char *help, size_t value) {
  hak_metrics_put_head(text, name, unit, "gauge", help);
  hak_text_put(text, "hakmem_%s %zu\n", name, value);
}

static void put_gauges(hak_text_t *text, const hak_stats_t *stats) {
  size_t resident = (stats->arena.used_slices + stats->arena.dirty_slices) << HAK_SLICE_SHIFT;
  size_t mapped = stats->arena.mapped_slices << HAK_SLICE_SHIFT;
#define HAK_TOTAL(name, metric, help, value) put_gauge(text, metric "_bytes", "bytes", help, value);
#define HAK_TEXT_TOTAL(name, value)
#define HAK_GAUGE(metric, help, value) put_gauge(text, metric "_bytes", "bytes", help, value);
#include "totals.def"
  put_gauge(text, "threads", "", "Threads that have a cache.", stats->threads);
}

static void put_calls(hak_text_t *text, const hak_os_counts_t *os) {
  hak_metrics_put_head(text, "os_calls", "", "counter",
                       "System calls that concern memory; failed: those of all that were refused.");
#define CALL(name) hak_text_put(text, "hakmem_os_calls_total{call=\"%s\"} %zu\n", #name, os->name);
  HAK_OS_CALLS(CALL)
}

typedef enum state { LIVE, CACHED, FREE, STATES } state_t;

static size_t blocks_of(const hak_class_stats_t *class, state_t state) {
  return state == LIVE ? class->live_blocks : state == CACHED ? class->cached_blocks : class->free_blocks;
}

/* Write block counts by size, one histogram for each state. */
static void put_sizes(hak_text_t *text, const hak_stats_t *stats) {
  static const char *const names[STATES] = {"live", "cached", "free"};
  hak_metrics_put_head(text, "block_size_bytes", "bytes", "gaugehistogram",
                       "Blocks by size: handed out, in caches, free in slabs.");
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
  hak_region_stats_put_metrics(text, stats->regions);
  hak_text_put(text, "# EOF\n");
}

size_t hak_stats_openmetrics(char *buffer, size_t capacity) {
  return hak_stats_tell(buffer, capacity, put_all);
}
