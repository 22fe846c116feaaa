// Counts the allocations of each stack. A block of s bytes is sampled with probability 1 - exp(-s / mean), so a sample
// stands for the inverse number of such blocks.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stats.h"

enum { ROWS_FIRST = 256, MOMENTS_EACH = TIMELINE / SERIES };

bool stats_stacks_open(stats_stacks_t *stacks, double mean) {
  *stacks = (stats_stacks_t){.mean = mean};
  stacks->of_node = calloc(TRACE_STACKS_MOST, sizeof *stacks->of_node);
  return stacks->of_node != NULL;
}

void stats_stacks_close(stats_stacks_t *stacks) {
  free(stacks->of_node);
  free(stacks->rows);
}

static stats_stack_t *row_of(stats_stacks_t *stacks, uint32_t node) {
  uint32_t *number = &stacks->of_node[node];
  if (*number == 0 && stacks->count == stacks->room) {
    uint32_t room = stacks->room ? 2 * stacks->room : ROWS_FIRST;
    stats_stack_t *grown = realloc(stacks->rows, room * sizeof *grown);
    if (grown == NULL) {
      stacks->no_room = true;
      return NULL;
    }
    stacks->rows = grown;
    stacks->room = room;
  }
  if (*number == 0) {
    stacks->rows[stacks->count] = (stats_stack_t){.node = node};
    *number = ++stacks->count;
  }
  return &stacks->rows[*number - 1];
}

static void fill(stats_stack_t *row, unsigned until) {
  for (; row->at < until; row->at++) {
    row->series[row->at] = (float)row->live_bytes;
  }
}

static unsigned present(const stats_counts_t *counts) {
  return (unsigned)(counts->moment - counts->timeline) / MOMENTS_EACH;
}

// Notes a stack's live bytes up to now and at the last peak. Call it before they change.
static void keep(const stats_counts_t *counts, stats_stack_t *row) {
  if (row->changed != counts->stacks->peaks) {
    row->changed = counts->stacks->peaks;
    row->peak_bytes = row->live_bytes;
  }
  fill(row, present(counts));
}

void stats_stacks_allocate(stats_counts_t *counts, stats_thread_t *by, stats_block_t *block) {
  stats_stacks_t *stacks = counts->stacks;
  block->stack = 0;
  stats_stack_t *row = stacks != NULL && by->stack != 0 ? row_of(stacks, by->stack) : NULL;
  by->stack = 0;
  if (row == NULL) {
    return;
  }
  double size = (double)(block->held - 1);
  block->weight = (float)(stacks->mean > 1 && size > 0 ? -1 / expm1(-size / stacks->mean) : 1);
  block->stack = (uint32_t)(row - stacks->rows) + 1;
  keep(counts, row);
  row->samples++;
  row->calls += block->weight;
  row->bytes += block->weight * size;
  row->live += block->weight;
  row->live_bytes += block->weight * size;
}

void stats_stacks_release(stats_counts_t *counts, const stats_thread_t *by, stats_block_t *block) {
  if (block->stack == 0) {
    return;
  }
  stats_stack_t *row = &counts->stacks->rows[block->stack - 1];
  double bytes = block->weight * (double)(block->held - 1);
  bool temporary = by->last == block;
  keep(counts, row);
  row->live -= block->weight;
  row->live_bytes -= bytes;
  row->temporary += temporary ? block->weight : 0;
  row->temporary_bytes += temporary ? bytes : 0;
  block->stack = 0;
}

// Merges pairs of stretches in all series.
void stats_stacks_halve(stats_counts_t *counts) {
  for (uint32_t i = 0; counts->stacks != NULL && i < counts->stacks->count; i++) {
    stats_stack_t *row = &counts->stacks->rows[i];
    fill(row, SERIES);
    for (unsigned k = 0; k < SERIES / 2; k++) {
      row->series[k] = row->series[2 * k + 1];
    }
    row->at = SERIES / 2;
  }
}

// [node, samples, calls, bytes, kept, its bytes, bytes at the peak, temporaries, their bytes, live bytes at the end of
// each stretch] of each stack.
void stats_stacks_print(FILE *out, stats_counts_t *counts) {
  unsigned last = present(counts) + 1;
  fprintf(out, ",\"stretch_ns\":%" PRIu64 ",\"by_stack\":[", counts->moment_ns * MOMENTS_EACH);
  for (uint32_t i = 0; i < counts->stacks->count; i++) {
    stats_stack_t *row = &counts->stacks->rows[i];
    fill(row, last);
    double peak = row->changed == counts->stacks->peaks ? row->peak_bytes : row->live_bytes;
    fprintf(out, "%s[%" PRIu32 ",%" PRIu64 ",%.1f,%.0f,%.1f,%.0f,%.0f,%.1f,%.0f,[", i ? "," : "", row->node,
            row->samples, row->calls, row->bytes, row->live, row->live_bytes, peak, row->temporary,
            row->temporary_bytes);
    for (unsigned k = 0; k < last; k++) {
      fprintf(out, "%s%.0f", k ? "," : "", (double)row->series[k]);
    }
    fputs("]]", out);
  }
  fputc(']', out);
}
