// Writes a trace. Not thread-safe. Every function returns 0, or -1 with errno (ENOSPC, EIO, ENOMEM, ...; EINVAL: an
// operation that no trace can hold); after a failure what was written is a valid, incomplete trace.
#ifndef TRACE_WRITE_H
#define TRACE_WRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "trace.h"

typedef struct trace_writer trace_writer_t;

trace_writer_t *trace_writer_open(int fd); // NULL with errno. Writes from the file's present position
// EINVAL: more than TRACE_CHUNK_BYTES, or so much that all texts together leave no room for the end's.
int trace_write_text(trace_writer_t *, trace_chunk_kind_t kind, uint32_t process, const char *json, size_t bytes);
// operation->time_ns: 0 = not known; a mark (one byte) is written where it differs from the last one of this thread.
// Buffered by thread; a chunk is written when it is full, and at TRACE_THREAD_END.
int trace_write_operation(trace_writer_t *, uint32_t process, uint32_t thread, const trace_operation_t *operation);
int trace_write_process_end(trace_writer_t *, uint32_t process); // its buffered chunks; no more operations of it
int trace_write_flush(trace_writer_t *);                         // all buffered chunks
// Flushes, writes TRACE_END with that JSON, also after a failure if there is room for it; does not close fd.
int trace_writer_close(trace_writer_t *, bool complete, const char *json, size_t bytes);

#endif
