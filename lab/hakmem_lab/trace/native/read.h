// Reads a trace, which may be hostile or cut off: bounded memory, every number checked. Memory comes from mmap, never
// from malloc. A trace_t may be read by several threads, each with streams of its own.
#ifndef TRACE_READ_H
#define TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "trace.h"

typedef struct trace trace_t;
typedef struct trace_stream trace_stream_t;

typedef struct {
  uint32_t process, thread;
  uint64_t operations; // over all chunks, by their headers
  uint32_t slots;      // bound on slot numbers + 1; grows as chunks are decoded: see trace_stream_slots
} trace_thread_t;

// Looks at chunk headers only. NULL: error says what is wrong in one line.
trace_t *trace_open(const char *path, char *error, size_t error_bytes);
void trace_close(trace_t *);
bool trace_complete(const trace_t *);
uint32_t trace_process_count(const trace_t *);
uint32_t trace_thread_count(const trace_t *, uint32_t process);
const trace_thread_t *trace_thread(const trace_t *, uint32_t process, uint32_t thread);
// The next text chunk of that kind and process after *position (0 at first); its bytes, unpacked into buffer; -1 none
// or error.
long trace_text(trace_t *, trace_chunk_kind_t kind, uint32_t process, size_t *position, char *buffer, size_t capacity);

trace_stream_t *trace_stream_open(trace_t *, uint32_t process, uint32_t thread); // NULL with errno
void trace_stream_close(trace_stream_t *);
// Decodes up to capacity operations; 0 = the end, -1 = damaged (trace_stream_error says what).
long trace_stream_next(trace_stream_t *, trace_operation_t *operations, size_t capacity);
const char *trace_stream_error(const trace_stream_t *);

#endif
