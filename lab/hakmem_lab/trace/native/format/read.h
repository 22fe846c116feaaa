// Reads a trace, which may be hostile or cut off: bounded memory, every number checked. Memory comes from mmap, never
// from malloc. A trace_t may be read by several threads, each with streams of its own.
//
// Guarantees for a user of the operations: slots are below trace_thread(owner)->slots. Owners and awaited threads
// exist. An awaited count is at most that thread's operations. TRACE_THREAD_END is the last operation. Alignments are
// from 2^0 to 2^TRACE_ALIGNMENT_LOG_MAX, and sizes at most TRACE_SIZE_MOST. Not checked is whether a slot holds a
// block, and whether threads wait for each other in a cycle.
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
  uint32_t slots;      // all its slot numbers are below this
  uint64_t operations; // sum of all chunk headers; 0: the trace has nothing of this thread
  uint64_t began_ns;   // time_ns of its first operation
} trace_thread_t;

// Reads only the headers of chunks with operations. NULL: `error` holds the reason in one line.
trace_t *trace_open(const char *path, char *error, size_t error_bytes);
void trace_close(trace_t *); // after its streams
bool trace_complete(const trace_t *);
uint64_t trace_cut_bytes(const trace_t *); // bytes of an incomplete chunk at the end of the file
uint64_t trace_file_bytes(const trace_t *);
size_t trace_memory_bytes(const trace_t *); // held by the trace and its streams; other threads may read meanwhile
uint32_t trace_process_count(const trace_t *);
uint32_t trace_thread_count(const trace_t *, uint32_t process);
const trace_thread_t *trace_thread(const trace_t *, uint32_t process, uint32_t thread); // NULL: no such number
// Unpacks the next text chunk of this kind and process after *position (0 at first) into buffer, which needs room for
// TRACE_CHUNK_BYTES. Returns its bytes; -1: none, -2: damaged. TRACE_INFO and TRACE_END belong to process 0.
long trace_text(trace_t *, trace_chunk_kind_t kind, uint32_t process, size_t *position, char *buffer, size_t capacity);

trace_stream_t *trace_stream_open(trace_t *, uint32_t process, uint32_t thread); // NULL with errno
void trace_stream_close(trace_stream_t *);
size_t trace_stream_bytes(const trace_stream_t *); // resident bytes that trace_memory_bytes does not count
// Decodes up to capacity operations. Returns their number; 0: the end; -1: damaged (trace_stream_error has the reason
// in one line).
long trace_stream_next(trace_stream_t *, trace_operation_t *operations, size_t capacity);
const char *trace_stream_error(const trace_stream_t *);

#endif
