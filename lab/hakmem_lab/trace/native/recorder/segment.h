// The memory that a recorded process shares with the collector: this header, then buffers of words (raw.h).
//
// Behind the buffers are the stacks that were seen, as a tree: a node is a place in the code and the node that called
// it. Nodes are numbered from 1 and never change; 0 is what called the outermost. The index finds a node by what it
// holds.
//
// A buffer is free (on the stack free_head, or never used yet), owned by one thread, which fills it, or in the queue.
// of[i] says whose it is, and as which of its buffers: that alone tells the collector what is left of a process that
// died. Only the owner writes into a buffer; the collector reads behind it at any time, and zeroes it before it is free
// again. Indices are stored with 1 added, so that zeroed memory is an empty segment.
#ifndef SEGMENT_H
#define SEGMENT_H

#include <stdatomic.h>
#include <stdint.h>

#define SEGMENT_VERSION 2u
#define SEGMENT_BUFFER_WORDS 8192u
#define SEGMENT_BUFFER_BYTES (SEGMENT_BUFFER_WORDS * 8u)
#define SEGMENT_BUFFERS 4096u
#define SEGMENT_QUEUE (2u * SEGMENT_BUFFERS) // more than can be in it
#define SEGMENT_NODES (1u << 19)             // a power of two
#define SEGMENT_CLOCK_SHIFT 6                // of the processor's clock, for RAW_TIME

typedef struct {
  _Atomic uint32_t owner; // thread's number + 1; 0: nobody's
  _Atomic uint32_t order; // among the buffers of that thread, from 0
} segment_use_t;

typedef struct {
  _Atomic uint64_t pc; // within the call; 0: not there yet
  uint64_t parent;     // a node, or 0
} segment_node_t;

typedef struct {
  uint32_t version;
  uint32_t process;       // its number in the trace
  uint64_t origin;        // the processor's clock when it began
  uint64_t slow_ticks;    // RAW_TIME units: where 64 words take longer than this, a thread is slow
  uint64_t stack_bytes;   // of so many allocated bytes one is asked for its stack; 1: all calls; 0: none
  _Atomic uint32_t nodes; // so many were begun, or more
  _Atomic uint32_t stop;
  _Atomic uint32_t heartbeat; // changes while the collector lives
  _Atomic uint32_t threads;   // the next thread's number
  _Atomic uint32_t fresh;     // buffers that were ever used
  _Atomic uint64_t free_head; // count of changes << 32 | index + 1
  _Atomic uint32_t queue_tail;
  _Atomic uint32_t forks;    // so many times it forked
  _Atomic uint32_t waits;    // how often a thread waited for a free buffer
  _Atomic uint64_t peak_kib; // of the process's resident memory, said when it exits
  _Atomic uint64_t cpu_ms;   // and what it used of the processors
  _Atomic uint32_t next[SEGMENT_BUFFERS];
  segment_use_t of[SEGMENT_BUFFERS];
  _Atomic uint32_t queue[SEGMENT_QUEUE]; // index + 1
} segment_t;

#define SEGMENT_HEADER_BYTES ((sizeof(segment_t) + 4095) & ~(size_t)4095)
#define SEGMENT_NODES_AT (SEGMENT_HEADER_BYTES + (size_t)SEGMENT_BUFFERS * SEGMENT_BUFFER_BYTES)
#define SEGMENT_INDEX_AT (SEGMENT_NODES_AT + SEGMENT_NODES * sizeof(segment_node_t))
#define SEGMENT_INDEX (2u * SEGMENT_NODES)
#define SEGMENT_BYTES (SEGMENT_INDEX_AT + SEGMENT_INDEX * sizeof(uint32_t))

static inline uint64_t *segment_buffer(segment_t *segment, uint32_t index) {
  return (uint64_t *)((char *)segment + SEGMENT_HEADER_BYTES + (size_t)index * SEGMENT_BUFFER_BYTES);
}

static inline segment_node_t *segment_node(segment_t *segment, uint32_t number) {
  return (segment_node_t *)((char *)segment + SEGMENT_NODES_AT) + (number - 1);
}

static inline _Atomic uint32_t *segment_index(segment_t *segment) {
  return (_Atomic uint32_t *)((char *)segment + SEGMENT_INDEX_AT);
}

// What a process says when it connects; the answer is one byte with a descriptor of the segment, or none.
typedef struct {
  uint32_t version;
  uint32_t parent; // a forked child: the number of the process it comes from + 1
  uint64_t fork;   // and of the RAW_FORK; else 0
  char allocator[256];
} segment_hello_t;
#define SEGMENT_SOCKET "HAK_RECORD_SOCKET" // the variable that holds the path

static inline uint64_t segment_clock(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t now;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now << SEGMENT_CLOCK_SHIFT; // it ticks at some ten MHz
#else
#error "the recorder knows the clocks of x86-64 and aarch64"
#endif
}

#endif
