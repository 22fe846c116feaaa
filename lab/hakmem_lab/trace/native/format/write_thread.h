// Collects the operations of one thread for a chunk: the columns, and the state to which slots and times are relative.
// Owned by the writer; no locks. Below: codec.h.
#ifndef TRACE_WRITE_THREAD_H
#define TRACE_WRITE_THREAD_H

#include "codec.h"

typedef struct {
  unsigned char *data;
  size_t used, room;
} column_t;

typedef struct {
  trace_codec_t codec;
  uint64_t given_ns;        // requested time_ns of the last mark, before rounding
  uint64_t began_ns;        // time of the first operation in the columns
  uint32_t operations;      // operations in the columns; at most TRACE_CHUNK_OPERATIONS fit into TRACE_CHUNK_BYTES
  uint32_t room_operations; // number of further operations that certainly fit into the columns
  column_t columns[TRACE_COLUMNS];
} thread_t; // begins as zeros

// number: the thread's own number. Returns 0, EINVAL (an operation that no trace can hold) or ENOMEM.
int thread_put(thread_t *, uint32_t number, const trace_operation_t *);
size_t thread_take(thread_t *, unsigned char *payload); // moves the columns into a payload; returns its bytes
void thread_free(thread_t *);

#endif
