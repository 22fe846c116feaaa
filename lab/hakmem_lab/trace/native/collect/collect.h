// hak-collect: gives each process that connects a segment (segment.h), takes the words out of it while the
// program runs, and has them packed into a trace.
//
// Two threads. The collector (collect_main.c, collect_process.c, collect_sample.c) empties the segments, and must never
// be late. The packer (collect_packer.c) works on what the collector has put into the queue (collect_queue.c), when the
// processors have nothing better to do; what it leaves for too long is moved from the shared memory to a file.
#ifndef COLLECT_H
#define COLLECT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "pack/pack.h"
#include "recorder/segment.h"

typedef struct {
  uint32_t taken;   // words that were put into the queue
  uint32_t pending; // of these, items that still point into the buffer. Guarded by the queue
  bool whole;       // nobody writes into it any more. Guarded by the queue
  uint16_t pages;   // that the program has ever touched of it
} buffer_t;

typedef struct process {
  struct process *next;
  uint32_t number; // in the trace
  pid_t pid;
  int pidfd;
  segment_t *segment;
  uint32_t queue_head;   // buffers taken out of the segment's queue
  uint64_t advanced;     // all before this clock is in the queue
  bool behind;           // the packer does not know that
  uint32_t *taken_whole; // by thread: so many of its buffers were taken to their end
  uint32_t thread_capacity;
  uint32_t forks_claimed;
  uint64_t began_ns, died_ns; // since the trace began; died: 0: it lives
  bool over;                  // the packer has been told of its end, and forgets its memory
  uint64_t own_pages;         // of the segment, that it has touched; of 4 KiB whatever the system's are
  uint64_t peak_kib, cpu_ms;
  uint32_t waits;
  int statm;     // its file in /proc
  bool left;     // it died in order: its exit handlers ran
  bool replaced; // another program runs in it
  bool exited;   // the next two are known
  int exit_code, signal;
  FILE *samples; // text of the next TRACE_RESIDENT
  char *samples_text;
  size_t samples_bytes;
  unsigned sample_count, samples_all;
  uint64_t sampled_ns;
  char executable[256];
  char begun[512]; // its auxiliary vector, as far as there is room: another program has another one
  size_t begun_bytes;
  pack_counts_t counts;  // the packer's, once it has ended
  buffer_t *buffers;     // of each in the segment
  struct stacks *stacks; // NULL: none are wanted, or it is over
} process_t;

static inline uint64_t process_own_kib(const process_t *process) {
  return process->own_pages * 4;
}

typedef enum { ITEM_PROCESS, ITEM_WORDS, ITEM_ADVANCE, ITEM_TEXT, ITEM_PROCESS_END, ITEM_LAST } item_kind_t;

typedef struct {
  item_kind_t kind;
  process_t *process;
  uint32_t thread, buffer, from, to;
  int64_t spilled;         // offset in the file, or -1
  int64_t parent;          // ITEM_PROCESS
  uint64_t fork, clock;    // ITEM_PROCESS, ITEM_ADVANCE
  char *text;              // JSON; the item's own
  trace_chunk_kind_t sort; // of the text
} item_t;

// collect_clock.c
void clock_start(void); // measures the clock; the trace begins now
double clock_ns(void);  // of one unit of RAW_TIME
uint64_t clock_since(uint64_t origin);
uint64_t clock_ns_since(uint64_t origin);
uint64_t clock_now_ns(void); // since the trace began

// collect_queue.c: what is to be packed, in order.
bool queue_open(const char *beside); // errno
void queue_put(item_t item);
void queue_release(process_t *process, uint32_t buffer); // it was taken to its end
item_t queue_take(void);                                 // waits
const uint64_t *queue_words(const item_t *item);         // NULL with errno
void queue_done(const item_t *item);
typedef struct {
  int error;        // errno of what went wrong; the recording ends
  const char *what; // went wrong
} failure_t;
void failure_note(int error, const char *what); // the first one counts
failure_t failure(void);

// collect_packer.c
void packer_start(int fd, const char *info);
void packer_wait(process_t *first);                    // after ITEM_LAST was put
uint64_t packer_close(bool complete, const char *end); // the trace's bytes

// collect_process.c
// NULL with errno; the descriptor of its segment is the caller's.
process_t *process_new(pid_t pid, uint32_t number, int *descriptor);
bool process_take(process_t *process);     // the words that are there now; False: none are new
void process_take_all(process_t *process); // of one that has ended; it must not be touched afterwards
void process_stop(process_t *process);

// collect_stacks.c: which files the places of a process's stacks are in.
void stacks_begin(process_t *process);           // while it waits for its answer
void stacks_take(process_t *process, bool last); // nodes that are new

// collect_processes.c: all of them.
// stack_bytes: segment.h; errno
bool processes_open(const char *socket_path, uint64_t stack_bytes);
void processes_serve(int timeout_ms, int control); // until something happens, such as a line to be read from control
bool processes_take(void);                         // what is new in all of them; False: nothing
bool processes_any(void);                          // that live, or may have children that are still to come
void processes_stop(void);
process_t *processes_of(pid_t pid); // also one that has ended; the last one of that number
process_t *processes_first(void);

// collect_end.c: what is said at the end, as JSON.
typedef struct {
  const char *reason; // NULL: it is complete
  double wall_s, cpu_s;
} ending_t;
char *end_describe(const ending_t *ending);

// collect_sample.c: what /proc says.
typedef struct {
  char state;
  pid_t parent;
  uint64_t cpu_ms;
  int exit_status; // as of wait; only of a zombie
} stat_t;
bool sample_stat(pid_t pid, stat_t *stat);     // False: it is gone
bool sample_is_same(const process_t *process); // False: it has become another program
void sample_resident(process_t *process);
void sample_cpu(process_t *process);
void sample_flush(process_t *process);
char *sample_describe(process_t *process, const segment_hello_t *hello, int64_t parent); // JSON
void json_string(FILE *out, const char *text, size_t bytes);

// collect_strangers.c: children of recorded processes that are not recorded themselves.
// attached: nobody else has loaded the recorder, so that one which becomes another program is recorded no longer.
void strangers_look(process_t *first, pid_t root, bool attached);
void strangers_add(pid_t pid);   // it cannot be recorded, and has said so
void strangers_write(FILE *out); // JSON

#endif
