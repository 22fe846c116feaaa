/* What the regions hold, by name: the table, and its three forms. stats.c and metrics.c call it. */
#include "stats.h"

#include <string.h>

static uint32_t hash_of(const hak_region_row_t *row) {
  uint32_t hash = 1;
  for (const char *at = row->name; *at; at++) {
    hash = (hash ^ (unsigned char)*at) * 0x01000193U;
  }
  for (const char *at = row->parent; *at; at++) {
    hash = (hash ^ (unsigned char)*at) * 0x01000193U;
  }
  return hash;
}

static size_t limit_of(const _Atomic size_t *limit) {
  size_t bytes = atomic_load_explicit(limit, memory_order_relaxed);
  return bytes == SIZE_MAX ? 0 : bytes;
}

/* A row of one region. Its name is valid while the lock of the regions is held. */
static void look(hak_region_t *region, hak_region_row_t *row) {
  memset(row, 0, sizeof *row);
  hak_lock(&region->lock);
  row->regions = 1;
  row->retired = hak_region_state(region) == HAK_REGION_RETIRED;
  row->used = atomic_load_explicit(&region->used, memory_order_relaxed);
  row->peak = atomic_load_explicit(&region->peak, memory_order_relaxed);
  row->soft = limit_of(&region->soft);
  row->hard = limit_of(&region->hard);
  row->live_bytes = region->live_bytes;
  row->live_blocks = region->live_blocks;
  row->allocated = region->allocated;
  row->freed = region->freed;
  hak_unlock(&region->lock);
  hak_text_copy_name(row->name, sizeof row->name, region->name);
  hak_text_copy_name(row->parent, sizeof row->parent, region->parent ? region->parent->name : "");
}

static void add_to_row(hak_region_row_t *row, const hak_region_row_t *more) {
  row->regions += more->regions;
  row->retired += more->retired;
  row->used += more->used;
  row->peak += more->peak;
  row->soft = row->soft && more->soft ? row->soft + more->soft : 0;
  row->hard = row->hard && more->hard ? row->hard + more->hard : 0;
  row->live_bytes += more->live_bytes;
  row->live_blocks += more->live_blocks;
  row->allocated += more->allocated;
  row->freed += more->freed;
}

/* NULL: the names have no row. */
static hak_region_row_t *row_of(hak_region_table_t *table, const hak_region_row_t *one, uint32_t hash) {
  for (size_t i = 0; i < table->rows; i++) {
    hak_region_row_t *row = &table->row[i];
    if (table->hash[i] == hash && strcmp(row->name, one->name) == 0 && strcmp(row->parent, one->parent) == 0) {
      return row;
    }
  }
  return NULL;
}

/* All rows are in use: the one that uses least. */
static size_t find_least(hak_region_table_t *table) {
  size_t least = 0;
  for (size_t i = 1; i < table->rows; i++) {
    least = table->row[i].used < table->row[least].used ? i : least;
  }
  table->floor = table->row[least].used;
  return least;
}

static void add_row(hak_region_table_t *table, const hak_region_row_t *one, uint32_t hash) {
  size_t at = table->rows;
  if (at < HAK_REGION_ROWS) {
    table->rows++;
  } else if (one->used <= table->floor || one->used <= table->row[at = find_least(table)].used) {
    table->left_out++;
    return;
  }
  table->left_out += table->row[at].regions;
  table->row[at] = *one;
  table->hash[at] = hash;
}

static void add(hak_region_t *region, void *context) {
  hak_region_table_t *table = context;
  hak_region_row_t one;
  look(region, &one);
  table->regions++;
  table->live_bytes += one.live_bytes;
  table->live_blocks += one.live_blocks;
  uint32_t hash = hash_of(&one);
  hak_region_row_t *row = row_of(table, &one, hash);
  if (row) {
    add_to_row(row, &one);
  } else {
    add_row(table, &one, hash);
  }
}

static void sort(hak_region_table_t *table) {
  for (size_t i = 0; i < table->rows; i++) {
    size_t most = i;
    for (size_t j = i + 1; j < table->rows; j++) {
      most = table->row[j].used > table->row[most].used ? j : most;
    }
    hak_region_row_t row = table->row[most];
    table->row[most] = table->row[i];
    table->row[i] = row;
  }
}

hak_region_table_t *hak_region_stats_read(hak_region_table_t *table) {
  if (!hak_region_newest()) {
    return NULL;
  }
  table = table ? table : hak_meta_alloc(sizeof *table);
  if (table) {
    memset(table, 0, sizeof *table);
    hak_region_each(add, table);
    if (atomic_load_explicit(&hak_regions_released.used, memory_order_relaxed) > 0) {
      add(&hak_regions_released, table);
    }
    sort(table);
  }
  return table;
}

static const char *state_of(const hak_region_row_t *row) {
  return row->retired == row->regions ? "retired" : "live";
}

void hak_region_stats_put_json(hak_text_t *text, const hak_region_table_t *table) {
  hak_text_put(text, "\"regions\":[");
  for (size_t i = 0; table && i < table->rows; i++) {
    const hak_region_row_t *row = &table->row[i];
    hak_text_put(text, "%s{\"name\":", i > 0 ? "," : "");
    hak_text_put_quoted(text, row->name);
    hak_text_put(text, ",\"parent\":");
    hak_text_put_quoted(text, row->parent);
    hak_text_put(text, ",\"regions\":%zu,\"state\":\"%s\",\"soft_limit\":%zu,\"hard_limit\":%zu,", row->regions,
                 state_of(row), row->soft, row->hard);
    hak_text_put(text, "\"used_bytes\":%zu,\"peak_bytes\":%zu,\"live_bytes\":%zu,\"live_blocks\":%zu,", row->used,
                 row->peak, row->live_bytes, row->live_blocks);
    hak_text_put(text, "\"allocated_bytes\":%zu,\"freed_bytes\":%zu}", row->allocated, row->freed);
  }
  hak_text_put(text, "],\"regions_left_out\":%zu", table ? table->left_out : 0);
}

void hak_region_stats_put_text(hak_text_t *text, const hak_region_table_t *table) {
  if (!table || table->rows == 0) {
    return;
  }
  size_t shown = table->rows < HAK_REGION_ROWS_TEXT ? table->rows : HAK_REGION_ROWS_TEXT, of_them = 0;
  hak_text_put(text, "regions         used         peak        limit         live  name\n");
  for (size_t i = 0; i < shown; i++) {
    const hak_region_row_t *row = &table->row[i];
    hak_text_put(text, "%7zu%13zu%13zu%13zu%13zu  ", row->regions, row->used, row->peak, row->hard, row->live_bytes);
    hak_text_put_quoted(text, row->name);
    hak_text_put(text, "\n");
    of_them += row->regions;
  }
  if (of_them < table->regions) {
    hak_text_put(text, "%7zu more, which use less\n", table->regions - of_them);
  }
}

/* Metrics are sums over the regions that exist, so that all of them are gauges. */
#define FAMILY(name, unit, help, field) \
  { name, unit, help, offsetof(hak_region_row_t, field) }
static const struct {
  const char *name, *unit, *help;
  size_t at; /* the field of a row */
} families[] = {
    FAMILY("heap_regions", "", "Regions of the name.", regions),
    FAMILY("heap_used_bytes", "bytes", "What limits of regions count, descendants included.", used),
    FAMILY("heap_peak_bytes", "bytes", "The most that was used so far.", peak),
    FAMILY("heap_limit_bytes", "bytes", "Hard limits; 0: there is none.", hard),
    FAMILY("heap_live_bytes", "bytes", "Bytes of live blocks.", live_bytes),
    FAMILY("heap_live_blocks", "", "Live blocks.", live_blocks),
    FAMILY("heap_allocated_bytes", "bytes", "Bytes allocated so far in the regions that exist.", allocated),
    FAMILY("heap_freed_bytes", "bytes", "Bytes freed so far in the regions that exist.", freed),
};

static void put_labels(hak_text_t *text, const hak_region_row_t *row) {
  hak_text_put(text, "{heap=");
  hak_text_put_quoted(text, row->name);
  if (row->parent[0]) {
    hak_text_put(text, ",parent=");
    hak_text_put_quoted(text, row->parent);
  }
  hak_text_put(text, "}");
}

void hak_region_stats_put_metrics(hak_text_t *text, const hak_region_table_t *table) {
  for (size_t i = 0; table && i < sizeof families / sizeof *families; i++) {
    hak_metrics_put_head(text, families[i].name, families[i].unit, "gauge", families[i].help);
    for (size_t j = 0; j < table->rows; j++) {
      const hak_region_row_t *row = &table->row[j];
      hak_text_put(text, "hakmem_%s", families[i].name);
      put_labels(text, row);
      hak_text_put(text, " %zu\n", *(const size_t *)(const void *)((const char *)row + families[i].at));
    }
  }
  if (table) {
    hak_metrics_put_head(text, "heap_regions_left_out", "", "gauge", "Regions of the names that use least.");
    hak_text_put(text, "hakmem_heap_regions_left_out %zu\n", table->left_out);
  }
}
