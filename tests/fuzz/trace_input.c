#include "trace_input.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "format/codec.h"

enum {
  FILE_BYTES = 8 << 20,
  PLAIN_BYTES = 1 << 20,
  REPEATED_MOST = 1 << 20, /* operations of one input */
};

static unsigned char file[FILE_BYTES], plain[PLAIN_BYTES];
static size_t file_bytes;
static uint32_t slots[PLAN_PROCESSES][PLAN_THREADS];
static uint32_t repeated;

typedef struct {
  const uint8_t *at, *end;
} reader_t;

static uint8_t byte(reader_t *reader) {
  return reader->at < reader->end ? *reader->at++ : 0;
}

static uint32_t word(reader_t *reader) {
  uint32_t low = byte(reader);
  return low | (uint32_t)byte(reader) << 8;
}

/* Take up to `wanted` bytes, as far as there are any. */
static size_t take(reader_t *reader, size_t wanted, unsigned char *to, size_t room) {
  size_t left = (size_t)(reader->end - reader->at);
  size_t bytes = wanted < left ? wanted : left;
  bytes = bytes < room ? bytes : room;
  memcpy(to, reader->at, bytes);
  reader->at += bytes;
  return bytes;
}

static void append(const void *data, size_t bytes) {
  if (bytes <= FILE_BYTES - file_bytes) {
    memcpy(file + file_bytes, data, bytes);
    file_bytes += bytes;
  }
}

static uint32_t checksum(const trace_chunk_t *chunk, const unsigned char *packed) {
  uLong crc = crc32(0, (const unsigned char *)chunk, offsetof(trace_chunk_t, crc));
  return (uint32_t)crc32(crc, packed, chunk->packed_bytes);
}

static void append_chunk(trace_chunk_t chunk, size_t bytes) {
  static unsigned char packed[PLAIN_BYTES + (64 << 10)];
  static ZSTD_CCtx *zstd;
  zstd = zstd ? zstd : ZSTD_createCCtx();
  size_t packed_bytes = ZSTD_compressCCtx(zstd, packed, sizeof packed, plain, bytes, 1);
  if (ZSTD_isError(packed_bytes)) {
    abort();
  }
  chunk.mark = TRACE_CHUNK_MARK;
  chunk.bytes = (uint32_t)bytes;
  chunk.packed_bytes = (uint32_t)packed_bytes;
  chunk.crc = checksum(&chunk, packed);
  append(&chunk, sizeof chunk);
  append(packed, packed_bytes);
}

static uint32_t count_new(const unsigned char *codes, size_t count) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; i++) {
    found += (codes[i] & 15) <= TRACE_ALIGNED && (codes[i] >> HINT_SHIFT & 3) == HINT_NEXT;
  }
  return found;
}

static trace_chunk_t operations_head(reader_t *reader) {
  return (trace_chunk_t){
      .kind = TRACE_OPERATIONS, .process = byte(reader) % PLAN_PROCESSES, .thread = byte(reader) % PLAN_THREADS};
}

static void add_operations(reader_t *reader) {
  trace_chunk_t chunk = operations_head(reader);
  uint8_t flags = byte(reader);
  uint32_t said = word(reader), lengths[TRACE_COLUMNS];
  size_t bytes = sizeof lengths;
  for (int i = 0; i < TRACE_COLUMNS; i++) {
    lengths[i] = word(reader);
  }
  for (int i = 0; i < TRACE_COLUMNS; i++) {
    lengths[i] = (uint32_t)take(reader, lengths[i], plain + bytes, PLAIN_BYTES - bytes);
    bytes += lengths[i];
  }
  memcpy(plain, lengths, sizeof lengths);
  uint32_t *used = &slots[chunk.process][chunk.thread];
  *used += count_new(plain + sizeof lengths, lengths[COLUMN_CODES]);
  chunk.operations = lengths[COLUMN_CODES];
  chunk.slots = flags & 1 ? said : *used;
  append_chunk(chunk, bytes);
}

static void add_repeated(reader_t *reader) {
  trace_chunk_t chunk = operations_head(reader);
  uint8_t code = byte(reader);
  uint32_t count = word(reader), lengths[TRACE_COLUMNS] = {count, count};
  repeated += count;
  if (repeated > REPEATED_MOST) {
    return;
  }
  bool has_size = (code & 15) <= TRACE_ALIGNED || (code & 15) == TRACE_REALLOC;
  lengths[COLUMN_SIZES] = has_size ? count : 0;
  memcpy(plain, lengths, sizeof lengths);
  memset(plain + sizeof lengths, code, count);
  memset(plain + sizeof lengths + count, 0, count);
  slots[chunk.process][chunk.thread] += count_new(plain + sizeof lengths, count);
  chunk.operations = count;
  chunk.slots = slots[chunk.process][chunk.thread];
  append_chunk(chunk, sizeof lengths + lengths[COLUMN_CODES] + lengths[COLUMN_SIZES]);
}

static void add_text(reader_t *reader, bool is_end) {
  trace_chunk_t chunk = {.kind = TRACE_END};
  if (is_end) {
    chunk.operations = byte(reader);
  } else {
    chunk.process = byte(reader) % PLAN_PROCESSES;
    chunk.kind = byte(reader);
  }
  uint32_t wanted = word(reader);
  append_chunk(chunk, take(reader, wanted, plain, PLAIN_BYTES));
}

static void add_records(reader_t *reader) {
  const trace_header_t header = {.magic = TRACE_MAGIC, .version = TRACE_VERSION};
  append(&header, sizeof header);
  while (reader->at < reader->end) {
    uint32_t bytes;
    switch (byte(reader) % RECORD_KINDS) {
    case RECORD_OPERATIONS:
      add_operations(reader);
      break;
    case RECORD_REPEATED:
      add_repeated(reader);
      break;
    case RECORD_TEXT:
      add_text(reader, false);
      break;
    case RECORD_END:
      add_text(reader, true);
      break;
    case RECORD_RAW:
      bytes = word(reader);
      append(plain, take(reader, bytes, plain, PLAIN_BYTES));
      break;
    default:
      bytes = word(reader);
      file_bytes -= bytes < file_bytes ? bytes : file_bytes;
    }
  }
}

static void repair(void) {
  for (size_t at = sizeof(trace_header_t); at + sizeof(trace_chunk_t) <= file_bytes;) {
    trace_chunk_t chunk;
    memcpy(&chunk, file + at, sizeof chunk);
    if (chunk.packed_bytes > file_bytes - at - sizeof chunk) {
      return;
    }
    chunk.crc = checksum(&chunk, file + at + sizeof chunk);
    memcpy(file + at, &chunk, sizeof chunk);
    at += sizeof chunk + chunk.packed_bytes;
  }
}

const char *make_trace(const uint8_t *plan, size_t length) {
  static int fd = -1;
  static char path[32];
  if (fd < 0) {
    fd = memfd_create("trace", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  file_bytes = 0;
  repeated = 0;
  memset(slots, 0, sizeof slots);
  reader_t reader = {plan, plan + length};
  uint8_t how = byte(&reader);
  if (how == PLAN_FILE || how == PLAN_REPAIRED) {
    append(reader.at, (size_t)(reader.end - reader.at));
    if (how == PLAN_REPAIRED) {
      repair();
    }
  } else {
    add_records(&reader);
  }
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, file, file_bytes, 0) != (ssize_t)file_bytes) {
    abort();
  }
  return path;
}

void run_plan(const uint8_t *plan, size_t length) {
  read_trace(make_trace(plan, length));
}
