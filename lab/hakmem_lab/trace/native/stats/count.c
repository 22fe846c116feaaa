#include "stats.h"

#include <string.h>

static unsigned bucket(uint64_t value) {
  if (value < 4) {
    return (unsigned)value;
  }
  unsigned exponent = 63u - (unsigned)__builtin_clzll(value);
  return (exponent - 1) * 4 + (unsigned)(value >> (exponent - 2) & 3);
}

static void add(histogram_t *histogram, uint64_t value, uint64_t bytes) {
  unsigned at = bucket(value);
  histogram->count[at]++;
  histogram->bytes[at] += bytes;
}

// Merges pairs of stretches when the timeline is full.
static void halve(stats_counts_t *counts) {
  for (uint32_t i = 0; i < TIMELINE / 2; i++) {
    moment_t *one = &counts->timeline[2 * i], *other = one + 1;
    uint64_t most = one->most_bytes > other->most_bytes ? one->most_bytes : other->most_bytes;
    counts->timeline[i] = other->seen ? *other : *one;
    counts->timeline[i].most_bytes = most;
  }
  memset(&counts->timeline[TIMELINE / 2], 0, sizeof counts->timeline / 2);
  stats_stacks_halve(counts);
  counts->moment_ns *= 2;
}

// Moves on to the stretch of this time. Call it before the operation is counted.
static void enter_moment(stats_counts_t *counts, uint64_t time_ns) {
  uint64_t since = time_ns > counts->began_ns ? time_ns - counts->began_ns : 0;
  if (since - counts->moment_from >= counts->moment_ns) {
    while (since / counts->moment_ns >= TIMELINE) {
      halve(counts);
    }
    counts->moment_from = since / counts->moment_ns * counts->moment_ns;
    counts->moment = &counts->timeline[since / counts->moment_ns];
  }
}

static void note_moment(stats_counts_t *counts) {
  moment_t *moment = counts->moment;
  moment->seen = true;
  moment->live_blocks = counts->live_blocks;
  moment->allocations = counts->allocations;
  moment->most_bytes = counts->live_bytes > moment->most_bytes ? counts->live_bytes : moment->most_bytes;
}

static void note_live(stats_counts_t *counts, uint64_t time_ns) {
  counts->peak_blocks = counts->live_blocks > counts->peak_blocks ? counts->live_blocks : counts->peak_blocks;
  if (counts->live_bytes > counts->peak_bytes) {
    counts->peak_bytes = counts->live_bytes;
    counts->peak_time_ns = time_ns;
    if (counts->stacks != NULL) {
      counts->stacks->peaks++;
    }
  }
}

static void note_touched(stats_counts_t *counts, const stats_block_t *block) {
  if (block->touched != 0) {
    uint64_t size = block->held - 1, touched = block->touched - 1;
    counts->touch_known_bytes += size;
    counts->touched_bytes += touched < size ? touched : size;
  }
}

static void allocate(stats_counts_t *counts, stats_block_t *block, const trace_operation_t *operation) {
  uint64_t size = operation->size;
  counts->allocations++;
  counts->allocated_bytes += size;
  if (size < SMALL) {
    counts->small[size]++;
  }
  counts->alignments[operation->other] += operation->kind == TRACE_ALIGNED;
  add(&counts->sizes, size, size);
  counts->live_blocks++;
  counts->live_bytes += size;
  *block = (stats_block_t){.held = size + 1,
                           .operation = counts->operations,
                           .bytes = counts->allocated_bytes,
                           .time_ns = operation->time_ns};
}

static void release(stats_counts_t *counts, stats_block_t *block, uint64_t time_ns) {
  uint64_t size = block->held - 1;
  add(&counts->life_operations, counts->operations - block->operation, size);
  add(&counts->life_bytes, counts->allocated_bytes - block->bytes, size);
  // The time marks of two threads may differ slightly.
  add(&counts->life_ns, time_ns > block->time_ns ? time_ns - block->time_ns : 0, size);
  note_touched(counts, block);
  counts->live_blocks--;
  counts->live_bytes -= size;
  block->held = 0;
}

static void resize(stats_counts_t *counts, stats_block_t *block, uint64_t size) {
  uint64_t before = block->held - 1;
  counts->grown += size > before;
  counts->shrunk += size < before;
  counts->allocated_bytes += size > before ? size - before : 0;
  counts->live_bytes += size - before;
  block->held = size + 1;
  add(&counts->sizes, size, size);
}

static const char *count_block(stats_counts_t *counts, stats_block_t *block, const trace_operation_t *operation,
                               stats_thread_t *by, bool complete) {
  bool allocates = operation->kind <= TRACE_ALIGNED;
  if (allocates != (block->held == 0)) {
    if (complete) {
      return allocates ? "it allocates a block where one still is" : "it speaks of a block that is not there";
    }
    counts->lost++;
    if (!allocates) {
      return NULL;
    }
    stats_stacks_release(counts, by, block);
    release(counts, block, operation->time_ns); // its free was cut off
  }
  switch (operation->kind) {
  case TRACE_TOUCHED:
    block->touched = operation->size + 1;
    return NULL;
  case TRACE_FREE:
  case TRACE_FREE_FOREIGN:
    stats_stacks_release(counts, by, block);
    release(counts, block, operation->time_ns);
    return NULL;
  case TRACE_REALLOC:
  case TRACE_REALLOC_FOREIGN:
    stats_stacks_release(counts, by, block);
    resize(counts, block, operation->size);
    stats_stacks_allocate(counts, by, block);
    return NULL;
  default:
    allocate(counts, block, operation);
    stats_stacks_allocate(counts, by, block);
    return NULL;
  }
}

const char *stats_count(stats_counts_t *counts, stats_thread_t *thread, stats_block_t *owner,
                        const trace_operation_t *operation, bool complete) {
  counts->by_kind[operation->kind]++;
  if (operation->time_ns > counts->ended_ns) {
    counts->ended_ns = operation->time_ns;
  }
  if (operation->kind >= TRACE_WAIT) {
    counts->lost += operation->kind == TRACE_NOTHING;
    thread->stack = operation->kind == TRACE_STACK ? operation->other : thread->stack;
    return NULL;
  }
  if (operation->kind != TRACE_TOUCHED) {
    bool foreign = operation->kind == TRACE_FREE_FOREIGN || operation->kind == TRACE_REALLOC_FOREIGN;
    counts->operations++;
    counts->handed_over += foreign;
    thread->operations++;
    thread->allocations += operation->kind <= TRACE_ALIGNED;
    thread->handed_over += foreign;
  }
  enter_moment(counts, operation->time_ns);
  const char *wrong = count_block(counts, owner + operation->slot, operation, thread, complete);
  if (operation->kind != TRACE_TOUCHED) {
    bool asks = operation->kind <= TRACE_ALIGNED || operation->kind >= TRACE_REALLOC;
    thread->last = asks ? owner + operation->slot : NULL;
  }
  note_live(counts, operation->time_ns);
  note_moment(counts);
  return wrong;
}

void stats_count_kept(stats_counts_t *counts, const stats_block_t *blocks, uint64_t slots) {
  for (uint64_t i = 0; i < slots; i++) {
    if (blocks[i].held != 0) {
      add(&counts->kept, blocks[i].held - 1, blocks[i].held - 1);
      note_touched(counts, &blocks[i]);
    }
  }
}

void stats_begin(stats_counts_t *counts, uint64_t began_ns) {
  stats_stacks_t *stacks = counts->stacks;
  FILE *history = counts->history;
  memset(counts, 0, sizeof *counts);
  counts->stacks = stacks;
  counts->history = history;
  counts->began_ns = counts->ended_ns = began_ns;
  counts->moment_ns = MOMENT_FIRST_NS;
  counts->moment = counts->timeline;
}
