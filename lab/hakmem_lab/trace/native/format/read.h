// Reads a trace, which may be hostile or cut off: bounded memory, every number checked. Memory comes from mmap, never
// from malloc. A trace_t may be read by several threads, each with streams of its own.
//
// What a reader of operations can rely on: slots are below trace_thread(owner)->slots, owners and awaited threads
// exist, an awaited count is at most that thread's operations, TRACE_THREAD_END is the last, alignments are of 2^0 to
// 2^TRACE_ALIGNMENT_LOG_MAX, sizes at most TRACE_SIZE_MOST. What it has to see to itself: whether a slot holds a block,
// and whether threads wait for each other in a ring.
#ifndef TRACE_READ_H
#define TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "trace.h"

enum { TRACE_ERROR_BYTES = 256 };

typedef struct trace trace_t;
typedef struct trace_stream trace_stream_t;

typedef struct {
  uint32_t process, thread;
  uint32_t slots;      // its slot numbers are below
  uint64_t operations; // over all chunks, by their headers; 0: nothing of this thread is in the trace
  uint64_t began_ns;   // time_ns of its first operation
} trace_thread_t;

// Looks at chunk headers only. NULL: error says what is wrong in one line.
trace_t *trace_open(const char *path, char *error, size_t error_bytes);
void trace_close(trace_t *); // after its streams
bool trace_complete(const trace_t *);
uint64_t trace_cut_bytes(const trace_t *); // of a chunk that was cut off at the end of the file
uint64_t trace_file_bytes(const trace_t *);
size_t trace_memory_bytes(const trace_t *); // held by it and its streams; while others read, too
uint32_t trace_process_count(const trace_t *);
uint32_t trace_thread_count(const trace_t *, uint32_t process);
const trace_thread_t *trace_thread(const trace_t *, uint32_t process, uint32_t thread); // NULL: no such number
// The next text chunk of that kind and process after *position (0 at first); its bytes, unpacked into buffer, which
// has room for TRACE_CHUNK_BYTES; -1 none, -2 damaged. TRACE_INFO and TRACE_END are of process 0.
long trace_text(trace_t *, trace_chunk_kind_t kind, uint32_t process, size_t *position, char *buffer, size_t capacity);

trace_stream_t *trace_stream_open(trace_t *, uint32_t process, uint32_t thread); // NULL with errno
void trace_stream_close(trace_stream_t *);
size_t trace_stream_bytes(const trace_stream_t *); // resident, beside what trace_memory_bytes counts
// Decodes up to capacity operations; 0 = the end, -1 = damaged (trace_stream_error says what, in one line).
long trace_stream_next(trace_stream_t *, trace_operation_t *operations, size_t capacity);
const char *trace_stream_error(const trace_stream_t *);

#endif
