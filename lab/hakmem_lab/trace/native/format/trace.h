// A trace: what a program asked of its allocator, without contents or addresses. Little-endian; see FORMAT below.
//
// FORMAT. A header (trace_header_t), then chunks: trace_chunk_t and `packed_bytes` of one zstd frame each. Chunks of
// all threads of all processes alternate in the file; those of one thread are in order. A file that was cut off
// anywhere is valid up to its last whole chunk; it is complete if it ends with a chunk TRACE_END that says so. Unknown
// kinds of chunk are skipped.
//
// The payload of TRACE_OPERATIONS is columns: TRACE_COLUMNS lengths in bytes (uint32_t), then the columns:
//   codes   one byte an operation: kind (bits 0..3), how its slot is told (bits 4..5), whether a time mark comes before
//           it (bits 6..7): see trace_hint_t and trace_mark_t
//   sizes   LEB128, one of each operation that asks for memory
//   slots   LEB128, where the slot is not implied; of a block of another thread, its owner first
//   times   nanoseconds since the last mark: a float of one byte (codec.h), or LEB128 of what is too long for that. The
//           writer carries its rounding error over, so that the sum stays right
//   extras  LEB128: logarithm of the alignment, touched bytes, thread and count that are waited for, stacks
// What slots and times are relative to goes on from one chunk of a thread to its next: a thread is read from its start.
#ifndef TRACE_H
#define TRACE_H

#include <stdint.h>

#define TRACE_MAGIC \
  { 'H', 'A', 'K', 'T', 'R', 'A', 'C', 'E' } // without a NUL
#define TRACE_VERSION 2u                     // 1: without stacks
#define TRACE_COLUMNS 5
#define TRACE_CHUNK_OPERATIONS (64u << 10) // at most
#define TRACE_CHUNK_BYTES (4u << 20)       // of an unpacked payload, at most
#define TRACE_PACKED_BYTES (5u << 20)      // of a packed one
#define TRACE_TEXT_BYTES (64u << 20)       // of all texts together
#define TRACE_STACKS_MOST (1u << 20)       // numbers of a process's stacks are below
#define TRACE_PROCESSES (1u << 20)         // numbers of processes, and of threads of one, are below these
#define TRACE_THREADS (1u << 20)
#define TRACE_THREADS_ALL (1u << 22) // of all processes

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
  TRACE_OPERATIONS = 3, // of one thread
  // JSON list: [[ns since the process began, resident KiB], ...], as the recorder's collector saw it
  TRACE_RESIDENT = 4,
  // JSON: reason (of an incomplete one), for each process how it ended and its peak RSS, counts. Its `operations` are 1
  // if the trace is complete, 0 if not
  TRACE_END = 5,
  // JSON: files as [path, build id], and nodes as [parent, file, offset], or -1 and the address. Files are counted from
  // 0, nodes from 1, over all of these texts of a process; a parent of 0: none. A node is a stack: its place, and its
  // parent's, which called it, and so on
  TRACE_STACKS = 6,
  TRACE_KIND_LAST = TRACE_STACKS,
} trace_chunk_kind_t;

typedef struct {
  uint32_t mark;            // TRACE_CHUNK_MARK
  uint32_t kind;            // trace_chunk_kind_t
  uint32_t process, thread; // numbers from 0 in the order of appearance; 0 where they do not apply
  uint32_t operations;
  uint32_t slots; // of the thread, used up to the end of this chunk: its slot numbers are below
  uint32_t bytes, packed_bytes;
  uint64_t time_ns; // of the first operation, 0 where it is not known
  uint32_t crc;     // CRC-32 (zlib's) of the fields above and the packed bytes
  uint32_t reserved;
} trace_chunk_t;
#define TRACE_CHUNK_MARK 0x4b4e4843u // "CHNK"

// What a thread does, decoded. A slot is a place in the table of the thread that allocated the block (its owner): the
// same number may be used again once the block is freed. Slots are dense: an allocation takes a freed one, or the next
// after all those used so far. So there are about as many as the most blocks of that thread that were live at once.
typedef enum {
  TRACE_MALLOC,          // size, slot
  TRACE_CALLOC,          // size (the product), slot
  TRACE_ALIGNED,         // size, slot, other = logarithm of the alignment
  TRACE_FREE,            // slot
  TRACE_FREE_FOREIGN,    // slot, other = owner
  TRACE_REALLOC,         // size, slot: the block keeps its slot and owner
  TRACE_REALLOC_FOREIGN, // size, slot, other = owner
  TRACE_TOUCHED, // slot, other = owner, size = bytes from the block's start that were touched by now. Only of blocks of
                 // TRACE_TOUCH_BYTES or more
  TRACE_WAIT, // other = a thread, size = it must have done as many operations (counted from 0, in decoded operations)
              // before this one goes on
  TRACE_THREAD_END, // the last
  TRACE_STACK,      // other = a node: where the thread's next allocation or reallocation was called
  TRACE_NOTHING, // never in a file: the reader's answer where an incomplete trace lacks the block or the thread that is
                 // spoken of. It counts as an operation, and there is nothing to do
} trace_kind_t;
#define TRACE_SIZE_MOST (1ull << 48) // of a block
#define TRACE_ALIGNMENT_LOG_MAX 40
#define TRACE_TOUCH_BYTES (128u << 10) // smaller blocks count as touched when they are allocated

typedef struct {
  uint64_t size;
  uint32_t slot;
  uint32_t other;
  uint64_t time_ns; // since the process began, as far as known: the last time mark of this thread
  uint8_t kind;     // trace_kind_t
} trace_operation_t;

#endif
