// What is in a trace, counted in one pass over all threads of a process: memory for the live blocks and the present
// chunks, no more. One thread. Below: read.h.
#ifndef TRACE_STATS_H
#define TRACE_STATS_H

#include <stdio.h>

#include "format/read.h"

enum {
  BUCKETS = 252,  // of a 64-bit number: four to a power of two
  SMALL = 1025,   // sizes below are counted one by one
  SERIES = 32,    // of a stack: as many stretches of the timeline are one
  TIMELINE = 256, // stretches of time; they double where there would be more
  MOMENT_FIRST_NS = 1000,
  ALIGNMENTS = TRACE_ALIGNMENT_LOG_MAX + 1,
};

typedef struct {
  uint64_t count[BUCKETS], bytes[BUCKETS];
} histogram_t;

typedef struct {
  uint64_t most_bytes;               // that were live within the stretch
  uint64_t live_blocks, allocations; // at its end
  bool seen;                         // something happened in it
} moment_t;

// Of what one stack allocated. Sampled, a block stands for several: `weight`.
typedef struct {
  uint32_t node;
  uint64_t samples;
  double calls, bytes;               // allocations and reallocations
  double temporary, temporary_bytes; // freed or reallocated by the thread's next call
  double live, live_bytes, peak_bytes;
  uint64_t changed; // its live bytes, last: at which of the process's peaks
  unsigned at;      // as far as the series is filled
  float series[SERIES];
} stats_stack_t;

typedef struct {
  double mean; // bytes from one sample to the next; up to 1: all calls
  stats_stack_t *rows;
  uint32_t count, room;
  uint32_t *of_node; // row + 1; 0: none yet
  uint64_t peaks;    // so many so far
  bool no_room;
} stats_stacks_t;

typedef struct {
  uint64_t operations; // on blocks: without touches, waits and ends
  uint64_t by_kind[TRACE_NOTHING + 1];
  uint64_t allocations;     // that were asked for, without reallocations
  uint64_t allocated_bytes; // by reallocations too: what a block becomes larger
  uint64_t grown, shrunk;   // reallocations
  uint64_t handed_over;     // frees and reallocations in another thread than the allocation
  uint64_t small[SMALL];    // allocations by size
  uint64_t alignments[ALIGNMENTS];
  uint64_t lost; // operations on blocks that an incomplete trace lacks
  uint64_t live_bytes, live_blocks;
  uint64_t peak_bytes, peak_blocks, peak_time_ns; // the time is that of the bytes
  uint64_t touch_known_bytes, touched_bytes;      // of blocks whose touched bytes were recorded, at their end
  uint64_t began_ns, ended_ns;
  histogram_t sizes;                                // of allocations and of what reallocations made
  histogram_t life_operations, life_bytes, life_ns; // of freed blocks: operations and bytes allocated meanwhile
  histogram_t kept;                                 // sizes of blocks that were never freed
  moment_t timeline[TIMELINE];
  uint64_t moment_ns;     // of a stretch
  uint64_t moment_from;   // the present one's begin, since began_ns
  moment_t *moment;       // the present one
  stats_stacks_t *stacks; // NULL: they are not asked for
  FILE *history;          // where the steps of the process are written; NULL: nowhere
} stats_counts_t;

typedef struct {
  uint64_t held; // its size + 1; 0: the slot is empty
  uint64_t touched;
  uint64_t operation, bytes, time_ns; // counts when it was allocated
  float weight;                       // of a sample
  uint32_t stack;                     // its row + 1; 0: it is none
} stats_block_t;

typedef struct {
  uint64_t operations, allocations, handed_over;
  const stats_block_t *last; // what its last operation allocated, if it did
  uint32_t stack;            // of its next allocation
} stats_thread_t;

// stacks.c: a block becomes a sample, and is none any more. by: the thread that does it.
bool stats_stacks_open(stats_stacks_t *, double mean); // false: no memory
void stats_stacks_close(stats_stacks_t *);
void stats_stacks_allocate(stats_counts_t *, stats_thread_t *by, stats_block_t *);
void stats_stacks_release(stats_counts_t *, const stats_thread_t *by, stats_block_t *);
void stats_stacks_halve(stats_counts_t *);
void stats_stacks_print(FILE *, stats_counts_t *);

// history.c; false: it cannot be written. slot: among those of all threads.
bool stats_history_begin(FILE *, uint64_t slots);
bool stats_history_add(FILE *, uint64_t slot, const trace_operation_t *);

void stats_begin(stats_counts_t *, uint64_t began_ns);
// What an operation does to the counts and the table of its owner. What is wrong, or NULL.
const char *stats_count(stats_counts_t *, stats_thread_t *, stats_block_t *owner, const trace_operation_t *,
                        bool complete);
void stats_count_kept(stats_counts_t *, const stats_block_t *, uint64_t slots); // after the last operation

// All threads of a process, by time and as their waits allow. threads: one for each, zeros. NULL: done; `error`: it
// holds a line that says all; else what is wrong with this process.
const char *stats_process(trace_t *, uint32_t process, stats_counts_t *, stats_thread_t *threads, char *error,
                          size_t error_bytes);

void stats_print(FILE *, const trace_t *, uint32_t process, const stats_counts_t *, const stats_thread_t *);
void stats_print_text(FILE *, const char *text, size_t bytes); // as a JSON string

#endif
