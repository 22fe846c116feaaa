// Counts the contents of a trace in one pass over all threads of a process. It needs memory only for the live blocks
// and the present chunks. Single-threaded. Below: read.h.
#ifndef TRACE_STATS_H
#define TRACE_STATS_H

#include <stdio.h>

#include "format/read.h"

enum {
  BUCKETS = 252,  // buckets for a 64-bit number: four to a power of two
  SMALL = 1025,   // smaller sizes are counted one by one
  SERIES = 32,    // points in a stack's series; each covers TIMELINE / SERIES stretches
  TIMELINE = 256, // most stretches of time; beyond it, pairs are merged
  MOMENT_FIRST_NS = 1000,
  ALIGNMENTS = TRACE_ALIGNMENT_LOG_MAX + 1,
};

typedef struct {
  uint64_t count[BUCKETS], bytes[BUCKETS];
} histogram_t;

typedef struct {
  uint64_t most_bytes;               // most live bytes within the stretch
  uint64_t live_blocks, allocations; // counts at its end
  bool seen;                         // it has operations
} moment_t;

// Totals of one stack. A sampled block stands for several: its `weight`.
typedef struct {
  uint32_t node;
  uint64_t samples;
  double calls, bytes;               // of allocations and reallocations
  double temporary, temporary_bytes; // freed or reallocated by the thread's next call
  double live, live_bytes, peak_bytes;
  uint64_t changed; // number of the process's peaks when its live bytes last changed
  unsigned at;      // number of filled points in the series
  float series[SERIES];
} stats_stack_t;

typedef struct {
  double mean; // mean bytes between samples; up to 1: every call
  stats_stack_t *rows;
  uint32_t count, room;
  uint32_t *of_node; // row + 1; 0: none yet
  uint64_t peaks;    // number of peaks of the process so far
  bool no_room;
} stats_stacks_t;

typedef struct {
  uint64_t operations; // operations on blocks, without touches, waits and ends
  uint64_t by_kind[TRACE_NOTHING + 1];
  uint64_t allocations;     // without reallocations
  uint64_t allocated_bytes; // includes the growth by reallocations
  uint64_t grown, shrunk;   // reallocations to a larger and to a smaller size
  uint64_t handed_over;     // frees and reallocations by another thread than the owner
  uint64_t small[SMALL];    // allocations by size
  uint64_t alignments[ALIGNMENTS];
  uint64_t lost; // operations on blocks that an incomplete trace lacks
  uint64_t live_bytes, live_blocks;
  uint64_t peak_bytes, peak_blocks, peak_time_ns; // peak_time_ns: time of peak_bytes
  uint64_t touch_known_bytes, touched_bytes;      // sizes of blocks with recorded touches, and the touched part
  uint64_t began_ns, ended_ns;
  histogram_t sizes;                                // sizes of allocations, and results of reallocations
  histogram_t life_operations, life_bytes, life_ns; // of freed blocks: operations and bytes allocated meanwhile
  histogram_t kept;                                 // sizes of blocks that were never freed
  moment_t timeline[TIMELINE];
  uint64_t moment_ns;     // length of a stretch
  uint64_t moment_from;   // start of the present stretch, since began_ns
  moment_t *moment;       // the present stretch
  stats_stacks_t *stacks; // NULL: no counts by stack
  FILE *history;          // file for the steps of the process; NULL: none
} stats_counts_t;

typedef struct {
  uint64_t held; // size of the block + 1; 0: the slot is empty
  uint64_t touched;
  uint64_t operation, bytes, time_ns; // the counts at its allocation
  float weight;                       // number of blocks for which a sample stands
  uint32_t stack;                     // row of a sample's stack + 1; 0: no sample
} stats_block_t;

typedef struct {
  uint64_t operations, allocations, handed_over;
  const stats_block_t *last; // block that its last operation allocated, else NULL
  uint32_t stack;            // stack of its next allocation
} stats_thread_t;

// stacks.c: counts samples. by: the thread that allocates or releases.
bool stats_stacks_open(stats_stacks_t *, double mean); // false: no memory
void stats_stacks_close(stats_stacks_t *);
void stats_stacks_allocate(stats_counts_t *, stats_thread_t *by, stats_block_t *);
void stats_stacks_release(stats_counts_t *, const stats_thread_t *by, stats_block_t *);
void stats_stacks_halve(stats_counts_t *);
void stats_stacks_print(FILE *, stats_counts_t *);

// history.c: writes a history. False: it cannot be written. slot: number among the slots of all threads.
bool stats_history_begin(FILE *, uint64_t slots);
bool stats_history_add(FILE *, uint64_t slot, const trace_operation_t *);

void stats_begin(stats_counts_t *, uint64_t began_ns);
// Applies an operation to the counts and to the table of its owner. Returns what is wrong, or NULL.
const char *stats_count(stats_counts_t *, stats_thread_t *, stats_block_t *owner, const trace_operation_t *,
                        bool complete);
void stats_count_kept(stats_counts_t *, const stats_block_t *, uint64_t slots); // after the last operation

// Counts all threads of a process in the order of time and waits. threads: one for each thread, zeroed. Returns NULL if
// done; `error` if that holds a complete message; else what is wrong with this process.
const char *stats_process(trace_t *, uint32_t process, stats_counts_t *, stats_thread_t *threads, char *error,
                          size_t error_bytes);

void stats_print(FILE *, const trace_t *, uint32_t process, const stats_counts_t *, const stats_thread_t *);
void stats_print_text(FILE *, const char *text, size_t bytes); // as a JSON string

#endif
