/* Writes the seed corpus of fuzz_trace: make_trace_plans DIRECTORY
 * It writes an invented program as a trace (write.h), and makes a plan from the unpacked chunks of the trace. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "check.h"
#include "format/write.h"
#include "trace_input.h"

enum { THREADS = 3, BLOCKS = 64, TRACE_BYTES = 1 << 20 };

typedef struct {
  uint32_t owner, slot;
} block_t;

static uint64_t state;

static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

static struct {
  trace_writer_t *writer;
  block_t live[BLOCKS];
  uint32_t count;
  uint32_t freed[THREADS][BLOCKS], freed_count[THREADS], slots[THREADS];
  uint64_t done[THREADS], now;
} program;

static void put(uint32_t thread, trace_operation_t operation) {
  program.now += draw(4) ? 0 : draw(3000);
  operation.time_ns = program.now;
  CHECK(trace_write_operation(program.writer, 0, thread, &operation) == 0);
  program.done[thread]++;
}

static void allocate(uint32_t thread) {
  uint32_t slot =
      program.freed_count[thread] ? program.freed[thread][--program.freed_count[thread]] : program.slots[thread]++;
  uint32_t kind = draw(3);
  program.live[program.count++] = (block_t){thread, slot};
  put(thread, (trace_operation_t){.kind = (uint8_t)kind,
                                  .size = draw(8) ? draw(500) : draw(1 << 24),
                                  .slot = slot,
                                  .other = kind == TRACE_ALIGNED ? draw(13) : 0});
}

static void use(uint32_t thread) {
  uint32_t which = draw(program.count);
  block_t block = program.live[which];
  bool own = block.owner == thread;
  if (!own) {
    put(thread, (trace_operation_t){.kind = TRACE_WAIT, .other = block.owner, .size = program.done[block.owner]});
  }
  trace_operation_t operation = {.slot = block.slot, .other = own ? 0 : block.owner};
  if (draw(5) == 0) {
    operation.kind = own ? TRACE_REALLOC : TRACE_REALLOC_FOREIGN;
    operation.size = draw(5000);
  } else if (draw(9) == 0) {
    operation.kind = TRACE_TOUCHED;
    operation.other = block.owner;
    operation.size = draw(1 << 20);
  } else {
    operation.kind = own ? TRACE_FREE : TRACE_FREE_FOREIGN;
    program.live[which] = program.live[--program.count];
    if (own) { /* others' would have to be waited for */
      program.freed[thread][program.freed_count[thread]++] = block.slot;
    }
  }
  put(thread, operation);
}

static int make_program(uint32_t number) {
  int fd = memfd_create("program", MFD_CLOEXEC);
  memset(&program, 0, sizeof program);
  state = number;
  program.writer = trace_writer_open(fd);
  CHECK(program.writer != NULL);
  static const char about[] = "{\"command\": [\"program\"]}", resident[] = "[[0, 100], [5000, 200]]";
  CHECK(trace_write_text(program.writer, TRACE_INFO, 0, about, sizeof about - 1) == 0);
  CHECK(trace_write_text(program.writer, TRACE_PROCESS, 0, about, sizeof about - 1) == 0);
  uint32_t threads = 1 + number % THREADS;
  for (uint32_t left = 20 + 40 * (number % 5); left > 0; left--) {
    uint32_t thread = draw(threads);
    if (program.count == 0 || (program.count < BLOCKS / 2 && draw(2))) {
      allocate(thread);
    } else {
      use(thread);
    }
    if (draw(40) == 0) {
      CHECK(trace_write_flush(program.writer) == 0);
    }
  }
  for (uint32_t thread = 0; thread < threads; thread++) {
    put(thread, (trace_operation_t){.kind = TRACE_THREAD_END});
  }
  CHECK(trace_write_text(program.writer, TRACE_RESIDENT, 0, resident, sizeof resident - 1) == 0);
  CHECK(trace_writer_close(program.writer, number % 4 != 3, about, sizeof about - 1) == 0);
  return fd;
}

static void put_word(FILE *out, uint32_t value) {
  fputc((int)(value & 0xff), out);
  fputc((int)(value >> 8 & 0xff), out);
}

static void put_record(FILE *out, const trace_chunk_t *chunk, const unsigned char *payload) {
  if (chunk->kind == TRACE_OPERATIONS) {
    fprintf(out, "%c%c%c%c", RECORD_OPERATIONS, (int)chunk->process, (int)chunk->thread, 0);
    put_word(out, chunk->slots);
    uint32_t lengths[TRACE_COLUMNS];
    memcpy(lengths, payload, sizeof lengths);
    for (int i = 0; i < TRACE_COLUMNS; i++) {
      put_word(out, lengths[i]);
    }
    fwrite(payload + sizeof lengths, 1, chunk->bytes - sizeof lengths, out);
    return;
  }
  if (chunk->kind == TRACE_END) {
    fprintf(out, "%c%c", RECORD_END, (int)chunk->operations);
  } else {
    fprintf(out, "%c%c%c", RECORD_TEXT, (int)chunk->process, (int)chunk->kind);
  }
  put_word(out, chunk->bytes);
  fwrite(payload, 1, chunk->bytes, out);
}

static void put_plan(FILE *out, int fd, bool as_file) {
  static unsigned char trace[TRACE_BYTES], payload[TRACE_BYTES];
  ssize_t bytes = pread(fd, trace, sizeof trace, 0);
  CHECK(bytes > 0 && bytes < TRACE_BYTES);
  fputc(as_file ? PLAN_REPAIRED : PLAN_RECORDS, out);
  if (as_file) {
    fwrite(trace, 1, (size_t)bytes, out);
    return;
  }
  for (size_t at = sizeof(trace_header_t); at < (size_t)bytes;) {
    trace_chunk_t chunk;
    memcpy(&chunk, trace + at, sizeof chunk);
    at += sizeof chunk;
    CHECK(ZSTD_decompress(payload, sizeof payload, trace + at, chunk.packed_bytes) == chunk.bytes);
    at += chunk.packed_bytes;
    put_record(out, &chunk, payload);
  }
}

int main(int argc, char **argv) {
  if (argc != 2 || chdir(argv[1]) != 0) {
    fprintf(stderr, "usage: make_trace_plans DIRECTORY\n");
    return 2;
  }
  for (uint32_t number = 0; number < 16; number++) {
    char name[32];
    snprintf(name, sizeof name, "program-%02u", number);
    FILE *out = fopen(name, "wb");
    CHECK(out != NULL);
    int fd = make_program(number);
    put_plan(out, fd, number % 8 == 7);
    close(fd);
    CHECK(fclose(out) == 0);
  }
  return 0;
}
