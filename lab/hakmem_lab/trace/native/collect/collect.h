// hak-collect: gives a segment (segment.h) to each process that connects, takes the words out of it while the program
// runs, and packs them into a trace.
//
// It has two threads. The collector (main.c, process.c, sample.c) empties the segments, and must never be late. The
// packer (packer.c) processes the collector's queue (queue.c) on otherwise idle processors. If it falls behind, the
// words are moved from the shared memory to a file.
#ifndef COLLECT_H
#define COLLECT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "pack/pack.h"
#include "recorder/segment.h"

typedef struct {
  uint32_t taken;   // words already put into the queue
  uint32_t pending; // queued items that still point into the buffer; guarded by the queue's lock
  bool whole;       // its owner has finished it; guarded by the queue's lock
  uint16_t pages;   // pages of the buffer that the program has touched
} buffer_t;

typedef struct process {
  struct process *next;
  uint32_t number; // in the trace
  pid_t pid;
  int pidfd;
  segment_t *segment;
  uint32_t queue_head;   // buffers taken out of the segment's queue
  uint64_t advanced;     // all words before this clock are in the queue
  bool behind;           // the packer has not been told of `advanced`
  uint32_t *taken_whole; // by thread: number of its buffers that were taken to their end
  uint32_t thread_capacity;
  uint32_t forks_claimed;
  uint64_t began_ns, died_ns; // since the trace began; died_ns: 0 while it lives
  bool over;                  // its end is in the queue; the packer unmaps its memory
  uint64_t own_pages;         // touched pages of the segment, in units of 4 KiB on all systems
  uint64_t peak_kib, cpu_ms;
  uint32_t waits;
  int statm;     // descriptor of /proc/PID/statm
  bool left;     // it exited normally: its exit handlers ran
  bool replaced; // another program runs in it
  bool exited;   // exit_code and signal are known
  int exit_code, signal;
  FILE *samples; // text of the next TRACE_RESIDENT
  char *samples_text;
  size_t samples_bytes;
  unsigned sample_count, samples_all;
  uint64_t sampled_ns;
  char executable[256];
  char begun[512]; // start of its auxiliary vector, which differs in another program
  size_t begun_bytes;
  pack_counts_t counts;  // from the packer, at the end of the recording
  buffer_t *buffers;     // one for each buffer of the segment
  struct stacks *stacks; // NULL: no stacks are recorded, or the process is over
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
  char *text;              // JSON, owned by the item
  trace_chunk_kind_t sort; // kind of the text
} item_t;

// clock.c
void clock_start(void); // measures the clock; the trace begins now
double clock_ns(void);  // length of one unit of RAW_TIME
uint64_t clock_since(uint64_t origin);
uint64_t clock_ns_since(uint64_t origin);
uint64_t clock_now_ns(void); // since the trace began

// queue.c: the items to pack, in order.
bool queue_open(const char *beside); // false with errno
void queue_put(item_t item);
void queue_release(process_t *process, uint32_t buffer); // the buffer was taken to its end
item_t queue_take(void);                                 // waits for an item
const uint64_t *queue_words(const item_t *item);         // NULL with errno
void queue_done(const item_t *item);
typedef struct {
  int error;        // errno; the recording ends
  const char *what; // part that failed
} failure_t;
void failure_note(int error, const char *what); // only the first failure is kept
failure_t failure(void);

// packer.c
void packer_start(int fd, const char *info);
void packer_wait(process_t *first);                    // called after ITEM_LAST was put
uint64_t packer_close(bool complete, const char *end); // returns the size of the trace in bytes

// process.c
// Returns NULL with errno. The caller owns the descriptor of the segment.
process_t *process_new(pid_t pid, uint32_t number, int *descriptor);
bool process_take(process_t *process);     // takes the present words; false: no new ones
void process_take_all(process_t *process); // takes the last words of an ended process; the last call for it
void process_stop(process_t *process);

// stacks.c: finds the files in which the places of a process's stacks lie.
void stacks_begin(process_t *process);           // called while the process waits for its answer
void stacks_take(process_t *process, bool last); // takes the new nodes

// processes.c: all recorded processes.
// stack_bytes: see segment.h. Returns false with errno.
bool processes_open(const char *socket_path, uint64_t stack_bytes);
void processes_serve(int timeout_ms, int control); // waits for an event, such as a line on `control`
bool processes_take(void);                         // takes the new words of all processes; false: none
bool processes_any(void);                          // whether one lives, or may have a child that still connects
void processes_stop(void);
process_t *processes_of(pid_t pid); // the latest one with this number, even if it has ended
process_t *processes_first(void);

// end.c: the text at the end of the trace, as JSON.
typedef struct {
  const char *reason; // why the trace is partial; NULL: it is complete
  double wall_s, cpu_s;
} ending_t;
char *end_describe(const ending_t *ending);

// sample.c: reads /proc.
typedef struct {
  char state;
  pid_t parent;
  uint64_t cpu_ms;
  int exit_status; // as from wait; only known for a zombie
} stat_t;
bool sample_stat(pid_t pid, stat_t *stat);     // false: the process is gone
bool sample_is_same(const process_t *process); // false: it has become another program
void sample_resident(process_t *process);
void sample_cpu(process_t *process);
void sample_flush(process_t *process);
char *sample_describe(process_t *process, const segment_hello_t *hello, int64_t parent); // JSON
void json_string(FILE *out, const char *text, size_t bytes);

// strangers.c: children of recorded processes that are not recorded themselves.
// attached: the recorder was not preloaded, so a process that becomes another program ends its recording.
void strangers_look(process_t *first, pid_t root, bool attached);
void strangers_add(pid_t pid);   // adds a process that reported that it cannot be recorded
void strangers_write(FILE *out); // JSON

#endif
