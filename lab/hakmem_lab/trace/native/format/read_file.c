#define ZSTD_STATIC_LINKING_ONLY // for ZSTD_initStaticDCtx: a decoder in our own memory
#include "read_file.h"
#include "resident.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

enum { TABLE_ENTRIES_FIRST = 64 };

void *memory_get(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void memory_put(void *memory, size_t bytes) {
  if (memory != NULL) {
    munmap(memory, bytes);
  }
}

size_t trace_memory_bytes(const trace_t *trace) {
  size_t workspace; // the memory of an unused decoder is not resident
  if (!resident_bytes(trace->workspace, trace->workspace_bytes, &workspace)) {
    workspace = trace->workspace_bytes;
  }
  return workspace + atomic_load(&trace->stream_bytes) + trace->chunks.count * trace->chunks.entry_bytes;
}

void *table_entry(table_t *table, uint32_t index, size_t entry_bytes) {
  if (index >= table->room) {
    size_t room = table->room ? table->room : TABLE_ENTRIES_FIRST;
    while (room <= index) {
      room *= 2;
    }
    void *larger = table->data == NULL
                       ? memory_get(room * entry_bytes)
                       : mremap(table->data, table->room * entry_bytes, room * entry_bytes, MREMAP_MAYMOVE);
    if (larger == NULL || larger == MAP_FAILED) {
      return NULL;
    }
    table->data = larger;
    table->room = (uint32_t)room;
    table->entry_bytes = entry_bytes;
  }
  if (index >= table->count) {
    table->count = index + 1;
  }
  return table->data + index * entry_bytes;
}

void table_free(table_t *table) {
  memory_put(table->data, table->room * table->entry_bytes);
}

bool file_read(const trace_t *trace, void *buffer, size_t bytes, uint64_t at) {
  char *to = buffer;
  while (bytes > 0) {
    ssize_t done = pread(trace->fd, to, bytes, (off_t)at);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      errno = done < 0 ? errno : EIO; // the file has become shorter since it was opened
      return false;
    }
    to += done;
    at += (uint64_t)done;
    bytes -= (size_t)done;
  }
  return true;
}

bool decoders_open(trace_t *trace, const char *path, char *error, size_t error_bytes) {
  const size_t zstd_bytes = (size_t)(ZSTD_estimateDCtxSize() + 63) & ~(size_t)63;
  size_t each = zstd_bytes + ((trace->most_packed + 63) & ~(size_t)63);
  trace->workspace_bytes = DECODERS * each;
  trace->workspace = memory_get(trace->workspace_bytes);
  if (trace->workspace == NULL) {
    snprintf(error, error_bytes, "%s: no memory to unpack it", path);
    return false;
  }
  for (int i = 0; i < DECODERS; i++) {
    decoder_t *decoder = &trace->decoders[i];
    pthread_mutex_init(&decoder->lock, NULL);
    decoder->memory = trace->workspace + (size_t)i * each;
    decoder->zstd_bytes = zstd_bytes;
    decoder->packed = decoder->memory + zstd_bytes;
  }
  return true;
}

void decoders_close(trace_t *trace) {
  memory_put(trace->workspace, trace->workspace_bytes);
}

unsigned long chunk_crc(const trace_chunk_t *head) {
  return crc32(0, (const unsigned char *)head, offsetof(trace_chunk_t, crc));
}

static const char *unpack(const trace_t *trace, decoder_t *decoder, const chunk_entry_t *chunk, void *buffer) {
  const trace_chunk_t *head = &chunk->head;
  if (decoder->zstd == NULL) { // created at the first use, since few traces need all
    decoder->zstd = ZSTD_initStaticDCtx(decoder->memory, decoder->zstd_bytes);
  }
  if (decoder->zstd == NULL) {
    return "there is no decoder for it";
  }
  if (!file_read(trace, decoder->packed, head->packed_bytes, chunk->at + sizeof *head)) {
    return strerror(errno);
  }
  uLong crc = crc32(chunk_crc(head), (const unsigned char *)decoder->packed, (uInt)head->packed_bytes);
  if ((uint32_t)crc != head->crc) {
    return "its checksum is wrong";
  }
  size_t bytes = ZSTD_decompressDCtx(decoder->zstd, buffer, head->bytes, decoder->packed, head->packed_bytes);
  return ZSTD_isError(bytes) || bytes != head->bytes ? "it does not unpack" : NULL;
}

const char *chunk_unpack(trace_t *trace, const chunk_entry_t *chunk, void *buffer) {
  decoder_t *decoder = &trace->decoders[chunk->head.thread % DECODERS];
  pthread_mutex_lock(&decoder->lock);
  const char *wrong = unpack(trace, decoder, chunk, buffer);
  pthread_mutex_unlock(&decoder->lock);
  return wrong;
}
