// Writes a trace. Not thread-safe. Every function returns 0, or -1 with errno (ENOSPC, EIO, ENOMEM, ...; EINVAL: an
// operation that no trace can hold). After a failure, the file is a valid, incomplete trace.
#ifndef TRACE_WRITE_H
#define TRACE_WRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "trace.h"

typedef struct trace_writer trace_writer_t;

trace_writer_t *trace_writer_open(int fd); // writes from the file's present position; NULL with errno
// EINVAL: the text has more than TRACE_CHUNK_BYTES, or all texts together would leave no room for the end's text.
int trace_write_text(trace_writer_t *, trace_chunk_kind_t kind, uint32_t process, const char *json, size_t bytes);
// operation->time_ns: 0 = unknown. A mark (one byte) is written where it differs from the last one of this thread.
// Operations are buffered by thread. A chunk is written when it is full, and at TRACE_THREAD_END.
int trace_write_operation(trace_writer_t *, uint32_t process, uint32_t thread, const trace_operation_t *operation);
int trace_write_process_end(trace_writer_t *, uint32_t process); // writes its buffered chunks; it may add no more
int trace_write_flush(trace_writer_t *);                         // writes all buffered chunks
// Flushes, and writes TRACE_END with this JSON, even after a failure if there is room. Does not close fd.
int trace_writer_close(trace_writer_t *, bool complete, const char *json, size_t bytes);

#endif
