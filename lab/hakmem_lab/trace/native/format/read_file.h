// The file of a trace: the places of its chunks, and their bytes. trace_open writes the entries, which are constant
// from then on. A decoder's lock admits one thread at a time. Below: trace.h.
#ifndef TRACE_READ_FILE_H
#define TRACE_READ_FILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <zstd.h>

#include "read.h"

typedef struct {
  char *data;
  uint32_t count, room;
  size_t entry_bytes;
} table_t;

typedef struct {
  uint64_t at;
  trace_chunk_t head;
  uint32_t next; // the next chunk of its chain; meaningless in the last one
} chunk_entry_t;

typedef struct {
  uint32_t first, last, count; // chunks
} chain_t;

typedef struct {
  trace_thread_t known;
  chain_t chain;
  uint32_t most_bytes; // of an unpacked chunk
} thread_entry_t;

typedef struct {
  table_t threads; // of thread_entry_t
  chain_t texts;
} process_entry_t;

enum {
  DECODERS = 4, // number of threads that can unpack at the same time
};

typedef struct {
  pthread_mutex_t lock;
  ZSTD_DCtx *zstd; // created at its first use
  char *memory;    // memory of zstd
  size_t zstd_bytes;
  char *packed;
} decoder_t;

// Limit of all streams together. A trace of our writer needs less: its chunks are smaller where there are more threads.
#define STREAM_BYTES_MOST (256ull << 20)

struct trace {
  int fd;
  bool ended, complete;
  uint64_t bytes, cut_bytes;
  table_t chunks, processes;
  chain_t texts; // of no process
  uint32_t most_packed;
  uint32_t thread_count; // of all processes
  decoder_t decoders[DECODERS];
  char *workspace; // of the decoders
  size_t workspace_bytes;
  _Atomic uint64_t stream_bytes;
};

void *memory_get(size_t bytes); // zeros; NULL: none
void memory_put(void *, size_t bytes);
// The entry with this index. If it is beyond the table's end, the table grows by entries of zeros. NULL: no memory. May
// move the table.
void *table_entry(table_t *, uint32_t index, size_t entry_bytes);
void table_free(table_t *);

bool file_read(const trace_t *, void *, size_t bytes, uint64_t at); // false with errno
bool decoders_open(trace_t *, const char *path, char *error, size_t error_bytes);
void decoders_close(trace_t *);
unsigned long chunk_crc(const trace_chunk_t *); // checksum of the header's part
// Unpacks the payload into buffer, which needs room for head.bytes. Returns the reason of a failure, or NULL.
const char *chunk_unpack(trace_t *, const chunk_entry_t *, void *buffer);
const thread_entry_t *thread_entry(const trace_t *, uint32_t process, uint32_t thread); // NULL: no such number

#endif
