// hak-replay: replays a trace with real threads, on the allocator that is preloaded into it.
//
// A worker replays a thread of the trace. The replay's own memory comes from mmap and is counted (replay_own_bytes), so
// that it can be subtracted from the process's memory. Only the processor time inside batches of decoded operations
// counts, without waits for other workers. The loop's own cost is measured in the same loop with functions that do
// nothing.
#ifndef REPLAY_H
#define REPLAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "format/read.h"

#define REPLAY_BATCH 4096u // operations decoded at once
#define REPLAY_STRIDE 64u  // operations between two updates of a worker's `done`
#define REPLAY_MOST_THREADS (1u << 16)
#define REPLAY_WINDOW_NS (10u * 1000000u) // most of the trace's time that a worker may be ahead of the others
#define REPLAY_BAD_INPUT 2                // exit statuses
#define REPLAY_FAILED 3

typedef enum { TOUCH_RECORDED, TOUCH_ALL, TOUCH_NONE } replay_touch_t;

typedef struct {
  const char *path;
  const char *processes; // numbers, separated by commas; NULL: those with at least 1 % of the operations
  long process;          // the process that this hak-replay replays itself; -1: it starts one hak-replay for each
  replay_touch_t touch;
  bool paced;         // wait for the recorded times of the operations
  const char *groups; // file with lines `node group`, to report the pages that each group keeps; NULL: no report
  uint32_t without;   // group whose blocks are never allocated; 0: none
  uint64_t until_ns;  // later operations, in the trace's time, are left out
  double stack_mean;  // mean bytes between two stacks of the trace; up to 1: every call; 0: no times by stack
} replay_options_t;

typedef enum {
  WORKER_UNBORN,
  WORKER_RUNNING,
  WORKER_AHEAD,   // too far ahead of the others in the trace's time
  WORKER_WAITING, // for an operation of another worker
  WORKER_ENDED,
} worker_state_t;

// The stack of a block, 0 if its allocation was not sampled, and the number of similar blocks for which it stands.
typedef struct {
  uint32_t stack;
  float weight;
} replay_mark_t;

// Totals of one stack. A sampled block stands for several, and so does the time of its operations.
typedef struct {
  _Atomic uint64_t samples, blocks_1024, ns; // blocks in parts of 1024
} replay_stack_t;

typedef struct {
  uint64_t operations, allocations, frees, reallocations;
  uint64_t skipped;   // frees of blocks that the trace never allocated
  uint64_t failed;    // allocations that the allocator refused
  uint64_t unordered; // waits for operations that a truncated trace lacks
  uint64_t segments;  // number of measured stretches
  uint64_t cpu_ns, elapsed_ns;
  uint64_t empty_ns, empty_operations; // time and operations of the loop without an allocator
} replay_counts_t;

typedef struct {
  _Alignas(128) _Atomic uint64_t done; // operations done; reading it (acquire) also makes their slots visible
  _Atomic uint64_t time_ns;            // the trace's time of the next operation
  _Atomic uint64_t awaited;            // least `done` for which another worker sleeps; UINT64_MAX: none sleeps
  _Atomic uint32_t moved;              // changes when sleepers must check `done`
  _Atomic uint32_t state;              // worker_state_t
  _Atomic uint32_t waits_for;
  _Atomic uint64_t waits_count;
  _Alignas(128) _Atomic(void *) *slots;
  _Atomic(replay_mark_t) *marks; // one for each slot; NULL without stacks and groups
  uint32_t next_stack;           // stack of its next allocation
  trace_stream_t *stream;
  trace_operation_t *batch;
  long in_batch;
  size_t batch_bytes, own_bytes; // resident bytes of the batch, and of batch and stream
  uint64_t highest_slot;
  uint64_t horizon_ns; // before this time it need not compare itself with the others
  char *stack;
  uint64_t thread; // pthread_t
  uint32_t number;
  replay_counts_t counts;
} worker_t;

typedef struct {
  const replay_options_t *options;
  trace_t *trace;
  bool complete;
  _Atomic bool refused; // the allocator refused an allocation
  uint32_t process;
  worker_t *workers;
  uint32_t count;
  _Atomic uint32_t started; // workers below this number have started
  _Atomic uint32_t wanted;  // workers below this number are needed now
  _Atomic uint32_t living;  // number of workers that have started and not ended
  _Atomic uint64_t next_start_ns;
  _Atomic uint64_t slowest_ns; // least time_ns of the workers at the crew's last look
  _Atomic uint32_t bell;       // changes to wake the crew
  uint64_t begin_ns;           // clock at the start, from which paced operations count
  uint64_t page_bytes;         // page size of the system
  uint64_t touch_below;        // smaller blocks are touched when they are allocated
  uint64_t clock_ns;           // cost of two readings of the clock
  replay_stack_t *stacks;      // by node; NULL: no times by stack are measured
  uint32_t *groups;            // by node; NULL: no pages by group are reported
} replay_t;

// replay.c
_Noreturn void replay_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef struct {
  uint64_t cpu_ns, elapsed_ns; // clocks at its start
} stretch_t;

// worker.c: runs a thread. The worker's stream must be open, and its first batch decoded.
void *replay_worker(void *worker);
void replay_start_clock(stretch_t *);
void replay_stop_clock(worker_t *, const stretch_t *);
extern replay_t replay;
bool replay_decode(worker_t *); // decodes and checks the next batch; false: the end
void replay_ring(void);
uint64_t replay_clock_of(clockid_t);
uint64_t replay_clock_ns(void);
uint64_t replay_clock_cost_ns(void);

// order.c: the clock stops while it waits.
void replay_wait_for(worker_t *, const trace_operation_t *, stretch_t *);
void replay_keep_order(worker_t *, uint64_t time_ns, stretch_t *);
void replay_wake(worker_t *); // wakes the workers that wait for it

// stacks.c: runs an operation of the loop, and adds its time to its stack
void replay_stacks_begin(void);
void replay_by_stack(worker_t *, const trace_operation_t *, void (*one)(worker_t *, const trace_operation_t *));
void replay_stacks_report(void);

// blame.c: runs an operation of the loop to find the pages of groups; a block's mark holds its group as `stack`
void replay_blame_begin(void);
void replay_blame(worker_t *, const trace_operation_t *, void (*one)(worker_t *, const trace_operation_t *));
void replay_blame_report(uint64_t image_kib);

// loop.c
size_t replay_run(worker_t *, const trace_operation_t *, size_t count); // stops before the first TRACE_WAIT
void replay_run_empty(worker_t *, const trace_operation_t *, size_t count);

// crew.c: starts workers when their time has come, and detects cycles of waits.
void replay_crew(uint32_t process);
void replay_look_after(const worker_t *); // called by a single worker between its batches

// memory.c
void *replay_map(size_t bytes);     // counted at once as resident
void *replay_reserve(size_t bytes); // only addresses; the caller counts touched memory by replay_count
void replay_unmap(void *, size_t bytes, size_t resident);
void replay_count(size_t bytes);
size_t replay_own_bytes(void);
size_t replay_resident_bytes(const void *, size_t bytes); // a multiple of pages
void replay_memory_begin(void);
void replay_sample(uint64_t time_ns);
uint64_t replay_check_limit(void); // returns resident KiB; fails if that exceeds the available memory
typedef struct {
  uint64_t at_ns, kib;
} replay_point_t;
typedef struct {
  uint64_t peak_kib, raw_peak_kib, own_kib, image_kib; // peak: without own and image
  double mean_kib;
  size_t points;
  replay_point_t *series;
} replay_memory_t;
replay_memory_t replay_memory_end(void);

// report.c: prints JSON
void replay_report(uint64_t start_ns, uint64_t wall_ns); // one line about the replayed process

#endif
