// A trace: what a program asked of its allocator, without contents or addresses. Little-endian; see FORMAT below.
//
// FORMAT. A header (trace_header_t), then chunks: trace_chunk_t and `packed_bytes` of one zstd frame each. Chunks of
// all threads of all processes alternate in the file; those of one thread are in order. A truncated file is valid up to
// its last whole chunk. A trace is complete if it ends with a chunk TRACE_END that marks it as complete. Unknown kinds
// of chunk are skipped.
//
// The payload of TRACE_OPERATIONS is columns: TRACE_COLUMNS lengths in bytes (uint32_t), then the columns:
//   codes   one byte an operation: kind (bits 0..3), how its slot is encoded (bits 4..5), whether a time mark comes
//           before it (bits 6..7): see trace_hint_t and trace_mark_t
//   sizes   LEB128, one for each operation that asks for memory
//   slots   LEB128, where the slot is not implied; for a block of another thread, its owner first
//   times   nanoseconds since the last mark: a float of one byte (codec.h), or LEB128 if that is too small. The
//           writer carries the rounding error to the next mark, so that the sum stays right
//   extras  LEB128: logarithm of the alignment, touched bytes, awaited thread and its count, stacks
// Slots and times are relative to earlier ones, also in earlier chunks of the thread, so a thread is read from its
// start.
#ifndef TRACE_H
#define TRACE_H

#include <stdint.h>

#define TRACE_MAGIC \
  { 'H', 'A', 'K', 'T', 'R', 'A', 'C', 'E' } // without a NUL
#define TRACE_VERSION 2u                     // version 1 has no stacks
#define TRACE_COLUMNS 5
#define TRACE_CHUNK_OPERATIONS (64u << 10) // most operations of a chunk
#define TRACE_CHUNK_BYTES (4u << 20)       // most bytes of an unpacked payload
#define TRACE_PACKED_BYTES (5u << 20)      // most bytes of a packed payload
#define TRACE_TEXT_BYTES (64u << 20)       // most bytes of all texts together
#define TRACE_STACKS_MOST (1u << 20)       // numbers of a process's stacks are below this
#define TRACE_PROCESSES (1u << 20)         // numbers of processes are below this; TRACE_THREADS: of a process's threads
#define TRACE_THREADS (1u << 20)
#define TRACE_THREADS_ALL (1u << 22) // most threads of all processes together

typedef struct {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
} trace_header_t;

typedef enum {
  // JSON: command, working directory, environment that matters, machine, when, recorder's version
  TRACE_INFO = 1,
  // JSON: pid, parent (number of process in the trace or null), forked, executable, command, allocator's library
  TRACE_PROCESS = 2,
  TRACE_OPERATIONS = 3, // operations of one thread
  // JSON list: [[ns since the process began, resident KiB], ...], as the collector sampled it
  TRACE_RESIDENT = 4,
  // JSON: reason why the trace is incomplete; for each process its end, its peak RSS and its counts. The chunk's
  // `operations` are 1 if the trace is complete, else 0
  TRACE_END = 5,
  // JSON: files as [path, build id], and nodes as [parent, file, offset], or [parent, -1, address]. Files are counted
  // from 0, and nodes from 1, over all these texts of a process. Parent 0: none. A node stands for a stack: its own
  // place, then the place of its parent, which called it, and so on
  TRACE_STACKS = 6,
  TRACE_KIND_LAST = TRACE_STACKS,
} trace_chunk_kind_t;

typedef struct {
  uint32_t mark;            // TRACE_CHUNK_MARK
  uint32_t kind;            // trace_chunk_kind_t
  uint32_t process, thread; // numbers from 0 in the order of appearance; 0 where they do not apply
  uint32_t operations;
  uint32_t slots; // slots of the thread up to the end of this chunk; its slot numbers are below this
  uint32_t bytes, packed_bytes;
  uint64_t time_ns; // time of the first operation; 0 if unknown
  uint32_t crc;     // CRC-32 (zlib's) of the fields above and the packed bytes
  uint32_t reserved;
} trace_chunk_t;
#define TRACE_CHUNK_MARK 0x4b4e4843u // "CHNK"

// The decoded operations of a thread. A slot is a place in the table of the thread that allocated the block (its
// owner). The number may be used again once the block is freed. Slots are dense: an allocation takes a freed slot, or
// the first unused one. So a thread has about as many slots as its most live blocks.
typedef enum {
  TRACE_MALLOC,          // size, slot
  TRACE_CALLOC,          // size (the product), slot
  TRACE_ALIGNED,         // size, slot, other = logarithm of the alignment
  TRACE_FREE,            // slot
  TRACE_FREE_FOREIGN,    // slot, other = owner
  TRACE_REALLOC,         // size, slot: the block keeps its slot and owner
  TRACE_REALLOC_FOREIGN, // size, slot, other = owner
  TRACE_TOUCHED, // slot, other = owner, size = bytes touched so far, from the block's start. Only recorded for blocks
                 // of at least TRACE_TOUCH_BYTES
  TRACE_WAIT,    // other = a thread, size = number of its decoded operations, counted from 0, that must be done before
                 // this thread goes on
  TRACE_THREAD_END, // the last operation
  TRACE_STACK,      // other = a node: the stack of the thread's next allocation or reallocation
  TRACE_NOTHING, // never in a file: the reader's replacement where an incomplete trace lacks the block or thread of an
                 // operation. It counts as an operation, but does nothing
} trace_kind_t;
#define TRACE_SIZE_MOST (1ull << 48) // largest size of a block
#define TRACE_ALIGNMENT_LOG_MAX 40
#define TRACE_TOUCH_BYTES (128u << 10) // smaller blocks count as touched when they are allocated

typedef struct {
  uint64_t size;
  uint32_t slot;
  uint32_t other;
  uint64_t time_ns; // the thread's last time mark, counted from the start of the process
  uint8_t kind;     // trace_kind_t
} trace_operation_t;

#endif
