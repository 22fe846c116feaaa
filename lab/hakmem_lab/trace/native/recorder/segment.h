// The memory that a recorded process shares with the collector: this header, then buffers of words (raw.h).
//
// After the buffers come the recorded stacks, as a tree: a node is a place in the code and the node of its caller.
// Nodes are numbered from 1 and never change; 0 is the caller of the outermost node. The index finds a node by its
// contents.
//
// A buffer is free (on the stack free_head, or never used), owned by one thread, which fills it, or in the queue. of[i]
// holds its owner, and its order among the owner's buffers. From these alone the collector finds the remaining words of
// a process that died. Only the owner writes into a buffer. The collector may read it at any time, and zeroes it before
// it frees it. Indices are stored with 1 added, so that zeroed memory is an empty segment.
#ifndef SEGMENT_H
#define SEGMENT_H

#include <stdatomic.h>
#include <stdint.h>

#define SEGMENT_VERSION 2u
#define SEGMENT_BUFFER_WORDS 8192u
#define SEGMENT_BUFFER_BYTES (SEGMENT_BUFFER_WORDS * 8u)
#define SEGMENT_BUFFERS 4096u
#define SEGMENT_QUEUE (2u * SEGMENT_BUFFERS) // more places than buffers, so it is never full
#define SEGMENT_NODES (1u << 19)             // a power of two
#define SEGMENT_CLOCK_SHIFT 6                // a unit of RAW_TIME is 2^6 ticks of the processor's clock

typedef struct {
  _Atomic uint32_t owner; // thread's number + 1; 0: no owner
  _Atomic uint32_t order; // number among the buffers of that thread, from 0
} segment_use_t;

typedef struct {
  _Atomic uint64_t pc; // an address within the call; 0: not written yet
  uint64_t parent;     // a node, or 0
} segment_node_t;

typedef struct {
  uint32_t version;
  uint32_t process;       // number of the process in the trace
  uint64_t origin;        // the processor's clock at the start of the recording
  uint64_t slow_ticks;    // in RAW_TIME units: a thread is slow if 64 words take longer
  uint64_t stack_bytes;   // mean allocated bytes between recorded stacks; 1: every call; 0: no stacks
  _Atomic uint32_t nodes; // number of begun nodes; may exceed SEGMENT_NODES
  _Atomic uint32_t stop;
  _Atomic uint32_t heartbeat; // changes while the collector lives
  _Atomic uint32_t threads;   // the next thread's number
  _Atomic uint32_t fresh;     // number of buffers that were ever used
  _Atomic uint64_t free_head; // count of changes << 32 | index + 1
  _Atomic uint32_t queue_tail;
  _Atomic uint32_t forks;    // number of the process's forks
  _Atomic uint32_t waits;    // how often a thread waited for a free buffer
  _Atomic uint64_t peak_kib; // peak resident memory, written when the process exits
  _Atomic uint64_t cpu_ms;   // processor time, written when the process exits
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

// The message of a process that connects. The answer is one byte with a descriptor of the segment, or no answer.
typedef struct {
  uint32_t version;
  uint32_t parent; // in a forked child: number of the parent + 1; else 0
  uint64_t fork;   // in a forked child: number of the RAW_FORK; else 0
  char allocator[256];
} segment_hello_t;
#define SEGMENT_SOCKET "HAK_RECORD_SOCKET" // environment variable with the path of the socket

static inline uint64_t segment_clock(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t now;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now << SEGMENT_CLOCK_SHIFT; // this clock ticks at only some ten MHz
#else
#error "the recorder knows the clocks of x86-64 and aarch64"
#endif
}

#endif
