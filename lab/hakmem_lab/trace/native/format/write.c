#include "write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "write_thread.h"

enum {
  ZSTD_LEVEL = 1,              // level 3 takes longer, and makes the columns no smaller
  FULL_SIZE_THREADS = 64,      // more threads get smaller chunks, so that the sum of their bytes does not grow
  LEAST_OPERATIONS = 1u << 10, // smallest limit of a chunk's operations
};

typedef struct {
  thread_t **threads; // NULL: not seen yet; &ended: no more operations are allowed
  uint32_t count;
} process_t;

struct trace_writer {
  int fd;
  int failed; // errno of the first failure
  off_t end;  // end of the last whole chunk; -1: the file cannot be truncated
  ZSTD_CCtx *zstd;
  process_t *processes;
  uint32_t process_count, open_threads;
  uint32_t chunk_operations; // most operations of a chunk with open_threads threads
  uint64_t text_bytes;
  unsigned char *plain;  // room for TRACE_CHUNK_BYTES
  unsigned char *packed; // a chunk's header and its packed bytes
  size_t packed_room;
};

static thread_t ended;

static int fail(trace_writer_t *writer, int error) {
  if (writer->failed == 0) {
    writer->failed = error;
  }
  errno = error;
  return -1;
}

// Writes all the data. If that fails, the file is truncated to its former end.
static int put(trace_writer_t *writer, const void *data, size_t bytes) {
  const char *at = data;
  for (size_t left = bytes; left > 0;) {
    ssize_t done = write(writer->fd, at, left);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      int error = done < 0 ? errno : EIO;
      if (writer->end >= 0 && ftruncate(writer->fd, writer->end) == 0) {
        lseek(writer->fd, writer->end, SEEK_SET);
      }
      return fail(writer, error);
    }
    at += done;
    left -= (size_t)done;
  }
  if (writer->end >= 0) {
    writer->end += (off_t)bytes;
  }
  return 0;
}

trace_writer_t *trace_writer_open(int fd) {
  trace_writer_t *writer = calloc(1, sizeof *writer);
  if (writer == NULL) {
    return NULL;
  }
  writer->fd = fd;
  writer->end = lseek(fd, 0, SEEK_CUR);
  writer->zstd = ZSTD_createCCtx();
  writer->packed_room = sizeof(trace_chunk_t) + ZSTD_compressBound(TRACE_CHUNK_BYTES);
  writer->plain = malloc(TRACE_CHUNK_BYTES);
  writer->packed = malloc(writer->packed_room);
  trace_header_t header = {.magic = TRACE_MAGIC, .version = TRACE_VERSION};
  errno = ENOMEM;
  if (writer->zstd && writer->plain && writer->packed && put(writer, &header, sizeof header) == 0) {
    ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    return writer;
  }
  int error = errno;
  ZSTD_freeCCtx(writer->zstd);
  free(writer->plain);
  free(writer->packed);
  free(writer);
  errno = error;
  return NULL;
}

// Compresses and writes a chunk. The caller sets its kind, process, thread, operations, slots and time_ns.
static int put_chunk(trace_writer_t *writer, trace_chunk_t chunk, const void *plain, size_t bytes) {
  unsigned char *payload = writer->packed + sizeof chunk;
  size_t packed = ZSTD_compress2(writer->zstd, payload, writer->packed_room - sizeof chunk, plain, bytes);
  if (ZSTD_isError(packed)) {
    return fail(writer, ENOMEM);
  }
  chunk.mark = TRACE_CHUNK_MARK;
  chunk.bytes = (uint32_t)bytes;
  chunk.packed_bytes = (uint32_t)packed;
  memcpy(writer->packed, &chunk, sizeof chunk);
  uLong crc = crc32(0, writer->packed, offsetof(trace_chunk_t, crc));
  chunk.crc = (uint32_t)crc32(crc, payload, (uInt)packed);
  memcpy(writer->packed, &chunk, sizeof chunk);
  return put(writer, writer->packed, sizeof chunk + packed);
}

int trace_write_text(trace_writer_t *writer, trace_chunk_kind_t kind, uint32_t process, const char *json,
                     size_t bytes) {
  if (writer->failed != 0) {
    return fail(writer, writer->failed);
  }
  if (bytes > TRACE_CHUNK_BYTES || process >= TRACE_PROCESSES ||
      writer->text_bytes + bytes > TRACE_TEXT_BYTES - TRACE_CHUNK_BYTES) {
    errno = EINVAL;
    return -1;
  }
  writer->text_bytes += bytes;
  return put_chunk(writer, (trace_chunk_t){.kind = (uint32_t)kind, .process = process}, json, bytes);
}

static int flush_thread(trace_writer_t *writer, uint32_t process, uint32_t number, thread_t *thread) {
  if (thread->operations == 0) {
    return 0;
  }
  trace_chunk_t chunk = {.kind = TRACE_OPERATIONS,
                         .process = process,
                         .thread = number,
                         .operations = thread->operations,
                         .slots = thread->codec.slots,
                         .time_ns = thread->began_ns};
  size_t bytes = thread_take(thread, writer->plain);
  return put_chunk(writer, chunk, writer->plain, bytes);
}

// The table, enlarged if needed to hold the entry `index`. NULL: no memory; the old table stays valid.
static void *grown(void *table, uint32_t *count, uint32_t index, size_t entry_bytes) {
  if (index < *count) {
    return table;
  }
  size_t wanted = index + 1 > 2 * (size_t)*count ? index + 1 : 2 * (size_t)*count;
  char *larger = reallocarray(table, wanted, entry_bytes);
  if (larger != NULL) {
    memset(larger + *count * entry_bytes, 0, (wanted - *count) * entry_bytes);
    *count = (uint32_t)wanted;
  }
  return larger;
}

static void count_open(trace_writer_t *writer, bool opened) {
  writer->open_threads += opened ? 1u : -1u;
  uint32_t share = FULL_SIZE_THREADS * TRACE_CHUNK_OPERATIONS / (writer->open_threads + 1);
  share = share > LEAST_OPERATIONS ? share : LEAST_OPERATIONS;
  writer->chunk_operations = share < TRACE_CHUNK_OPERATIONS ? share : TRACE_CHUNK_OPERATIONS;
}

static void end_thread(trace_writer_t *writer, thread_t **thread) {
  thread_free(*thread);
  *thread = &ended;
  count_open(writer, false);
}

// The thread's entry, created for a new thread. NULL: no memory.
static thread_t *find_thread(trace_writer_t *writer, uint32_t number_of_process, uint32_t number) {
  process_t *processes = grown(writer->processes, &writer->process_count, number_of_process, sizeof *processes);
  if (processes == NULL) {
    return NULL;
  }
  writer->processes = processes;
  process_t *process = &processes[number_of_process];
  thread_t **threads = grown(process->threads, &process->count, number, sizeof(void *));
  if (threads == NULL) {
    return NULL;
  }
  process->threads = threads;
  if (threads[number] == NULL) {
    threads[number] = calloc(1, sizeof(thread_t));
    if (threads[number] != NULL) {
      count_open(writer, true);
    }
  }
  return threads[number];
}

int trace_write_operation(trace_writer_t *writer, uint32_t process, uint32_t number,
                          const trace_operation_t *operation) {
  if (writer->failed != 0) {
    return fail(writer, writer->failed);
  }
  if (process >= TRACE_PROCESSES || number >= TRACE_THREADS) {
    errno = EINVAL;
    return -1;
  }
  thread_t *thread = process < writer->process_count && number < writer->processes[process].count
                         ? writer->processes[process].threads[number]
                         : NULL;
  if (thread == NULL) {
    thread = find_thread(writer, process, number);
  }
  int error = thread == NULL ? ENOMEM : thread == &ended ? EINVAL : thread_put(thread, number, operation);
  if (error == EINVAL) {
    errno = EINVAL; // the caller's mistake; the trace stays usable
    return -1;
  }
  if (error != 0) {
    return fail(writer, error);
  }
  if (thread->operations >= writer->chunk_operations || operation->kind == TRACE_THREAD_END) {
    int result = flush_thread(writer, process, number, thread);
    if (operation->kind == TRACE_THREAD_END) {
      end_thread(writer, &writer->processes[process].threads[number]);
    }
    return result;
  }
  return 0;
}

static int flush_process(trace_writer_t *writer, uint32_t number_of_process) {
  process_t *process = &writer->processes[number_of_process];
  for (uint32_t number = 0; number < process->count; number++) {
    thread_t *thread = process->threads[number];
    if (thread != NULL && thread != &ended && flush_thread(writer, number_of_process, number, thread) != 0) {
      return -1;
    }
  }
  return 0;
}

int trace_write_process_end(trace_writer_t *writer, uint32_t number) {
  if (writer->failed != 0) {
    return fail(writer, writer->failed);
  }
  if (number >= writer->process_count) {
    return 0;
  }
  int result = flush_process(writer, number);
  process_t *process = &writer->processes[number];
  for (uint32_t i = 0; i < process->count; i++) {
    if (process->threads[i] != NULL && process->threads[i] != &ended) {
      end_thread(writer, &process->threads[i]);
    }
  }
  return result;
}

int trace_write_flush(trace_writer_t *writer) {
  for (uint32_t i = 0; i < writer->process_count; i++) {
    if (flush_process(writer, i) != 0) {
      return -1;
    }
  }
  return 0;
}

static void free_writer(trace_writer_t *writer) {
  for (uint32_t i = 0; i < writer->process_count; i++) {
    process_t *process = &writer->processes[i];
    for (uint32_t number = 0; number < process->count; number++) {
      if (process->threads[number] != NULL && process->threads[number] != &ended) {
        thread_free(process->threads[number]);
      }
    }
    free(process->threads);
  }
  free(writer->processes);
  ZSTD_freeCCtx(writer->zstd);
  free(writer->plain);
  free(writer->packed);
  free(writer);
}

int trace_writer_close(trace_writer_t *writer, bool complete, const char *json, size_t bytes) {
  int error = writer->failed;
  if (error == 0 && trace_write_flush(writer) != 0) {
    error = writer->failed;
  }
  writer->failed = 0; // after a failure, the truncated file may leave room for the small end
  trace_chunk_t chunk = {.kind = TRACE_END, .operations = complete && error == 0};
  if (bytes > TRACE_CHUNK_BYTES) {
    error = error != 0 ? error : EINVAL;
  } else if (put_chunk(writer, chunk, json, bytes) != 0) {
    error = error != 0 ? error : writer->failed;
  }
  free_writer(writer);
  errno = error;
  return error == 0 ? 0 : -1;
}
