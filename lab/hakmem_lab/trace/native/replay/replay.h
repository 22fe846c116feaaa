// hak-replay: does again what a trace says, with real threads, on the allocator that it is preloaded with.
//
// A worker is a thread of the trace. Whatever the replay itself needs comes from mmap and is counted
// (replay_own_bytes), so that it can be told from what the allocator holds. Time counts only inside of batches of
// decoded operations, in the thread's processor time, without waiting for others; the loop's own cost is measured in
// the same loop with functions that do nothing.
#ifndef REPLAY_H
#define REPLAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "format/read.h"

#define REPLAY_BATCH 4096u // operations that are decoded at once
#define REPLAY_STRIDE 64u  // operations between two announcements of how far a worker is
#define REPLAY_MOST_THREADS (1u << 16)
#define REPLAY_WINDOW_NS (10u * 1000000u) // of the trace's time: nobody is further ahead of the others
#define REPLAY_BAD_INPUT 2                // exit statuses
#define REPLAY_FAILED 3

typedef enum { TOUCH_RECORDED, TOUCH_ALL, TOUCH_NONE } replay_touch_t;

typedef struct {
  const char *path;
  const char *processes; // their numbers, with commas; NULL: those with 1 % of the operations or more
  long process;          // the one that this hak-replay does itself; -1: it starts one for each
  replay_touch_t touch;
  bool paced;         // think times as recorded
  const char *groups; // a file of lines `node group`: the replay reports which pages each group keeps; NULL: it is not
  uint32_t without;   // the group whose blocks are never allocated; 0: none
  uint64_t until_ns;  // of the trace's time: what comes later is left out
  double stack_mean;  // bytes between two stacks of the trace; up to 1: all calls have one; 0: no times by stack
} replay_options_t;

typedef enum {
  WORKER_UNBORN,
  WORKER_RUNNING,
  WORKER_AHEAD,   // of the others, by the trace's time: it lets them come nearer
  WORKER_WAITING, // for an operation of another
  WORKER_ENDED,
} worker_state_t;

// Of a block whose allocation was sampled: its stack (0: it was not), and for how many like it it stands.
typedef struct {
  uint32_t stack;
  float weight;
} replay_mark_t;

// Of what one stack allocated. Blocks stand for several each, and so does the time of what is done with them.
typedef struct {
  _Atomic uint64_t samples, blocks_1024, ns; // blocks in parts of 1024
} replay_stack_t;

typedef struct {
  uint64_t operations, allocations, frees, reallocations;
  uint64_t skipped;   // frees of blocks that this trace never allocated
  uint64_t failed;    // allocations that the allocator refused
  uint64_t unordered; // waits for what a trace that was cut off no longer holds
  uint64_t segments;  // stretches between two readings of the clock
  uint64_t cpu_ns, elapsed_ns;
  uint64_t empty_ns, empty_operations; // of the loop without an allocator
} replay_counts_t;

typedef struct {
  _Alignas(128) _Atomic uint64_t done; // operations; whoever reads it sees the slots as they were by then
  _Atomic uint64_t time_ns;            // of the next operation, by the trace
  _Atomic uint64_t awaited;            // the least number done that somebody sleeps for; UINT64_MAX: nobody does
  _Atomic uint32_t moved;              // changes when sleepers are to look
  _Atomic uint32_t state;              // worker_state_t
  _Atomic uint32_t waits_for;
  _Atomic uint64_t waits_count;
  _Alignas(128) _Atomic(void *) *slots;
  _Atomic(replay_mark_t) *marks; // of the slots, by stack
  uint32_t next_stack;           // of its next allocation
  trace_stream_t *stream;
  trace_operation_t *batch;
  long in_batch;
  size_t batch_bytes, own_bytes; // resident: of the batch, of that and the stream
  uint64_t highest_slot;
  uint64_t horizon_ns; // up to here it need not look where the others are
  char *stack;
  uint64_t thread; // pthread_t
  uint32_t number;
  replay_counts_t counts;
} worker_t;

typedef struct {
  const replay_options_t *options;
  trace_t *trace;
  bool complete;
  _Atomic bool refused; // the allocator has refused an allocation
  uint32_t process;
  worker_t *workers;
  uint32_t count;
  _Atomic uint32_t started; // workers below are not unborn
  _Atomic uint32_t wanted;  // workers below are needed now
  _Atomic uint32_t living;  // started, and not gone
  _Atomic uint64_t next_start_ns;
  _Atomic uint64_t slowest_ns; // by the trace, as the crew saw it last
  _Atomic uint32_t bell;       // rung when the crew should look
  uint64_t begin_ns;           // of the clock, where paced operations count from
  uint64_t page_bytes;         // the system's
  uint64_t touch_below;        // blocks smaller than this are touched when they are allocated
  uint64_t clock_ns;           // what reading the clock twice costs
  replay_stack_t *stacks;      // by node; NULL: no time by stack is measured
  uint32_t *groups;            // by node; NULL: no pages by group are reported
} replay_t;

// replay.c
_Noreturn void replay_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef struct {
  uint64_t cpu_ns, elapsed_ns; // when it began
} stretch_t;

// replay_worker.c: what a thread does. The worker's stream is open, its first batch decoded.
void *replay_worker(void *worker);
void replay_start_clock(stretch_t *);
void replay_stop_clock(worker_t *, const stretch_t *);
extern replay_t replay;
bool replay_decode(worker_t *); // the next batch, checked; false: the end
void replay_ring(void);
uint64_t replay_clock_of(clockid_t);
uint64_t replay_clock_ns(void);
uint64_t replay_clock_cost_ns(void);

// replay_order.c: the clock stops while it waits.
void replay_wait_for(worker_t *, const trace_operation_t *, stretch_t *);
void replay_keep_order(worker_t *, uint64_t time_ns, stretch_t *);
void replay_wake(worker_t *); // those who sleep for it

// stacks.c: an operation of the loop, its time told by stack
void replay_stacks_begin(void);
void replay_by_stack(worker_t *, const trace_operation_t *, void (*one)(worker_t *, const trace_operation_t *));
void replay_stacks_report(void);

// blame.c: the same for the pages that groups of stacks keep; the mark of a block says its group
void replay_blame_begin(void);
void replay_blame(worker_t *, const trace_operation_t *, void (*one)(worker_t *, const trace_operation_t *));
void replay_blame_report(uint64_t image_kib);

// replay_loop.c
size_t replay_run(worker_t *, const trace_operation_t *, size_t count); // up to the first TRACE_WAIT, or all
void replay_run_empty(worker_t *, const trace_operation_t *, size_t count);

// replay_crew.c: starts workers when their time has come, finds out whether they wait for each other in a circle.
void replay_crew(uint32_t process);
void replay_look_after(const worker_t *); // what a worker that is alone does between its batches

// replay_memory.c
void *replay_map(size_t bytes);     // resident at once, counted
void *replay_reserve(size_t bytes); // addresses only; counted by replay_count
void replay_unmap(void *, size_t bytes, size_t resident);
void replay_count(size_t bytes);
size_t replay_own_bytes(void);
size_t replay_resident_bytes(const void *, size_t bytes); // a multiple of pages
void replay_memory_begin(void);
void replay_sample(uint64_t time_ns);
uint64_t replay_check_limit(void); // resident KiB; ends the replay where that is more than there is
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

// replay_report.c: JSON on standard output
void replay_report(uint64_t start_ns, uint64_t wall_ns); // of the process that was replayed, one line

#endif
