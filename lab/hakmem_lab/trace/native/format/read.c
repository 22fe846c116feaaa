#include "read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "read_file.h"

enum { CHECKED_BYTES = 16 << 10 }; // read at a time

// Why the header of a chunk is invalid in itself, or NULL.
static const char *examine(const trace_chunk_t *chunk) {
  if (chunk->bytes > TRACE_CHUNK_BYTES || chunk->packed_bytes > TRACE_PACKED_BYTES) {
    return "is larger than a chunk can be";
  }
  if (chunk->reserved != 0) {
    return "is of another version";
  }
  bool is_known = chunk->kind >= TRACE_INFO && chunk->kind <= TRACE_KIND_LAST;
  if (is_known && (chunk->process >= TRACE_PROCESSES || chunk->thread >= TRACE_THREADS)) {
    return "is of a process or a thread that cannot be";
  }
  if (chunk->kind == TRACE_OPERATIONS &&
      (chunk->operations == 0 || chunk->operations > TRACE_CHUNK_OPERATIONS || chunk->bytes < chunk->operations)) {
    return "has a number of operations that cannot be";
  }
  return NULL;
}

// The thread's entry, created for a new thread; NULL: no memory.
static thread_entry_t *find_thread(trace_t *trace, uint32_t process_number, uint32_t number) {
  process_entry_t *process = table_entry(&trace->processes, process_number, sizeof *process);
  if (process == NULL) {
    return NULL;
  }
  uint32_t before = process->threads.count;
  thread_entry_t *thread = table_entry(&process->threads, number, sizeof *thread);
  trace->thread_count += process->threads.count - before;
  if (thread != NULL && thread->known.operations == 0) {
    thread->known.process = process_number;
    thread->known.thread = number;
  }
  return thread;
}

static void append(trace_t *trace, chain_t *chain, uint32_t index) {
  if (chain->count++ > 0) {
    chunk_entry_t *last = table_entry(&trace->chunks, chain->last, sizeof *last);
    last->next = index;
  } else {
    chain->first = index;
  }
  chain->last = index;
}

static const char *add_text(trace_t *trace, const trace_chunk_t *chunk, uint32_t index) {
  if (chunk->kind == TRACE_INFO || chunk->kind == TRACE_END) {
    append(trace, &trace->texts, index);
    return NULL;
  }
  process_entry_t *process = table_entry(&trace->processes, chunk->process, sizeof *process);
  if (process == NULL) {
    return "leaves no memory to note its process";
  }
  append(trace, &process->texts, index);
  return NULL;
}

// Appends a chunk of operations to the earlier ones of its thread.
static const char *add_to_thread(trace_t *trace, const trace_chunk_t *chunk, uint32_t index) {
  thread_entry_t *thread = find_thread(trace, chunk->process, chunk->thread);
  if (thread == NULL) {
    return "leaves no memory to note its thread";
  }
  if (trace->thread_count > TRACE_THREADS_ALL) {
    return "is of more threads than a trace can have";
  }
  uint64_t operations = thread->known.operations + chunk->operations;
  if (chunk->slots < thread->known.slots || chunk->slots > operations) {
    return "has a number of slots that cannot be";
  }
  if (thread->chain.count == 0) {
    thread->known.began_ns = chunk->time_ns;
  }
  append(trace, &thread->chain, index);
  thread->known.operations = operations;
  thread->known.slots = chunk->slots;
  thread->most_bytes = chunk->bytes > thread->most_bytes ? chunk->bytes : thread->most_bytes;
  return NULL;
}

static const char *add(trace_t *trace, const trace_chunk_t *chunk, uint64_t at) {
  uint32_t index = trace->chunks.count;
  chunk_entry_t *entry = index == UINT32_MAX ? NULL : table_entry(&trace->chunks, index, sizeof *entry);
  if (entry == NULL) {
    return "leaves no memory to note it";
  }
  *entry = (chunk_entry_t){.at = at, .head = *chunk};
  trace->most_packed = chunk->packed_bytes > trace->most_packed ? chunk->packed_bytes : trace->most_packed;
  trace->ended = chunk->kind == TRACE_END;
  trace->complete = trace->ended && chunk->operations == 1;
  return chunk->kind == TRACE_OPERATIONS ? add_to_thread(trace, chunk, index) : add_text(trace, chunk, index);
}

// Checks the checksum of all chunks except operations, which are checked when they are read. It includes skipped kinds,
// since damage may have changed the kind of a chunk.
static const char *check_text(const trace_t *trace, const trace_chunk_t *chunk, uint64_t at) {
  if (chunk->kind == TRACE_OPERATIONS) {
    return NULL;
  }
  unsigned char part[CHECKED_BYTES];
  uLong crc = chunk_crc(chunk);
  at += sizeof *chunk;
  for (uint32_t left = chunk->packed_bytes; left > 0;) {
    uint32_t bytes = left < sizeof part ? left : (uint32_t)sizeof part;
    if (!file_read(trace, part, bytes, at)) {
      return "cannot be read";
    }
    crc = crc32(crc, part, bytes);
    at += bytes;
    left -= bytes;
  }
  return (uint32_t)crc == chunk->crc ? NULL : "has a wrong checksum";
}

// Reads the headers of all chunks. Returns false with the error written.
static bool scan(trace_t *trace, const char *path, char *error, size_t error_bytes) {
  uint64_t at = sizeof(trace_header_t);
  while (at < trace->bytes) {
    trace_chunk_t chunk;
    uint64_t left = trace->bytes - at;
    if (left < sizeof chunk) {
      break;
    }
    if (!file_read(trace, &chunk, sizeof chunk, at)) {
      snprintf(error, error_bytes, "%s cannot be read: %s", path, strerror(errno));
      return false;
    }
    const char *wrong = chunk.mark != TRACE_CHUNK_MARK ? "has no mark" : examine(&chunk);
    if (trace->ended) {
      wrong = "comes after the end";
    } else if (wrong == NULL && left - sizeof chunk < chunk.packed_bytes) {
      break;
    }
    wrong = wrong ? wrong : check_text(trace, &chunk, at);
    bool is_known = chunk.kind >= TRACE_INFO && chunk.kind <= TRACE_KIND_LAST;
    wrong = wrong || !is_known ? wrong : add(trace, &chunk, at);
    if (wrong != NULL) {
      snprintf(error, error_bytes, "%s is damaged: the chunk at byte %" PRIu64 " %s", path, at, wrong);
      return false;
    }
    at += sizeof chunk + chunk.packed_bytes;
  }
  trace->cut_bytes = trace->bytes - at;
  return true;
}

static bool open_file(trace_t *trace, const char *path, char *error, size_t error_bytes) {
  trace->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe without a writer would block
  struct stat status;
  if (trace->fd < 0 || fstat(trace->fd, &status) != 0) {
    snprintf(error, error_bytes, "%s cannot be opened: %s", path, strerror(errno));
    return false;
  }
  if (!S_ISREG(status.st_mode)) {
    snprintf(error, error_bytes, "%s is no regular file, as a trace is", path);
    return false;
  }
  trace_header_t header;
  trace->bytes = (uint64_t)status.st_size;
  if (trace->bytes < sizeof header || !file_read(trace, &header, sizeof header, 0) ||
      memcmp(header.magic, (char[])TRACE_MAGIC, sizeof header.magic) != 0) {
    snprintf(error, error_bytes, "%s is not a trace of hak record", path);
    return false;
  }
  if (header.version == 0 || header.version > TRACE_VERSION || header.reserved != 0) {
    snprintf(error, error_bytes, "%s is a trace of version %" PRIu32 "; this hak reads version %u", path,
             header.version, TRACE_VERSION);
    return false;
  }
  return scan(trace, path, error, error_bytes) && decoders_open(trace, path, error, error_bytes);
}

trace_t *trace_open(const char *path, char *error, size_t error_bytes) {
  trace_t *trace = memory_get(sizeof *trace);
  if (trace == NULL) {
    snprintf(error, error_bytes, "%s: no memory to read it", path);
    return NULL;
  }
  trace->fd = -1;
  if (!open_file(trace, path, error, error_bytes)) {
    trace_close(trace);
    return NULL;
  }
  return trace;
}

void trace_close(trace_t *trace) {
  for (uint32_t i = 0; i < trace->processes.count; i++) {
    process_entry_t *process = table_entry(&trace->processes, i, sizeof *process);
    table_free(&process->threads);
  }
  table_free(&trace->processes);
  table_free(&trace->chunks);
  decoders_close(trace);
  if (trace->fd >= 0) {
    close(trace->fd);
  }
  memory_put(trace, sizeof *trace);
}

bool trace_complete(const trace_t *trace) {
  return trace->complete;
}

uint64_t trace_cut_bytes(const trace_t *trace) {
  return trace->cut_bytes;
}

uint64_t trace_file_bytes(const trace_t *trace) {
  return trace->bytes;
}

uint32_t trace_process_count(const trace_t *trace) {
  return trace->processes.count;
}

const thread_entry_t *thread_entry(const trace_t *trace, uint32_t process, uint32_t thread) {
  if (process >= trace->processes.count) {
    return NULL;
  }
  const table_t *threads = &((const process_entry_t *)trace->processes.data)[process].threads;
  return thread < threads->count ? &((const thread_entry_t *)threads->data)[thread] : NULL;
}

uint32_t trace_thread_count(const trace_t *trace, uint32_t process) {
  return process < trace->processes.count ? ((const process_entry_t *)trace->processes.data)[process].threads.count : 0;
}

const trace_thread_t *trace_thread(const trace_t *trace, uint32_t process, uint32_t thread) {
  const thread_entry_t *entry = thread_entry(trace, process, thread);
  return entry ? &entry->known : NULL;
}

long trace_text(trace_t *trace, trace_chunk_kind_t kind, uint32_t process, size_t *position, char *buffer,
                size_t capacity) {
  const chain_t *chain = &trace->texts;
  if (kind != TRACE_INFO && kind != TRACE_END) {
    if (process >= trace->processes.count) {
      return -1;
    }
    chain = &((const process_entry_t *)trace->processes.data)[process].texts;
  }
  const chunk_entry_t *chunks = (const chunk_entry_t *)trace->chunks.data;
  // The position is the number of the last examined chunk + 1; 0: none examined.
  while (chain->count > 0 && *position != (size_t)chain->last + 1) {
    size_t index = *position == 0 ? chain->first : chunks[*position - 1].next;
    *position = index + 1;
    if (chunks[index].head.kind == (uint32_t)kind) {
      const char *wrong =
          chunks[index].head.bytes > capacity ? "too large" : chunk_unpack(trace, &chunks[index], buffer);
      return wrong == NULL ? (long)chunks[index].head.bytes : -2;
    }
  }
  return -1;
}
