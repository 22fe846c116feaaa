// The operations of one thread on their way into a chunk: columns, and what slots and times are relative to. Owned by
// the writer; no locks. Below: codec.h.
#ifndef TRACE_WRITE_THREAD_H
#define TRACE_WRITE_THREAD_H

#include "codec.h"

typedef struct {
  unsigned char *data;
  size_t used, room;
} column_t;

typedef struct {
  trace_codec_t codec;
  uint64_t given_ns;        // time_ns of the last mark as it was asked for, before its rounding
  uint64_t began_ns;        // of the first operation in the columns
  uint32_t operations;      // in the columns: at most TRACE_CHUNK_OPERATIONS, so that they fit into TRACE_CHUNK_BYTES
  uint32_t room_operations; // as many more fit into the columns for certain
  column_t columns[TRACE_COLUMNS];
} thread_t; // begins as zeros

// number: the thread's own. 0; EINVAL: no trace can hold this; ENOMEM.
int thread_put(thread_t *, uint32_t number, const trace_operation_t *);
size_t thread_take(thread_t *, unsigned char *payload); // empties the columns into a payload; its bytes
void thread_free(thread_t *);

#endif
