/* Reads a trace in every way, and checks the promises of read.h. Writes the trace again; the copy must have the same
 * contents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "format/write.h"
#include "stats/stats.h"
#include "trace_input.h"

enum { MOST_THREADS = 64, BATCH = 7 };

static FILE *nowhere(void) {
  static FILE *out;
  out = out ? out : fopen("/dev/null", "w");
  CHECK(out != NULL);
  return out;
}

static void check_operation(const trace_t *trace, const trace_thread_t *thread, const trace_operation_t *o) {
  uint32_t owner = thread->thread;
  CHECK(o->kind <= TRACE_NOTHING);
  switch (o->kind) {
  case TRACE_WAIT:
    CHECK(o->other != thread->thread && trace_thread(trace, thread->process, o->other) != NULL);
    CHECK(o->size <= trace_thread(trace, thread->process, o->other)->operations);
    return;
  case TRACE_NOTHING:
    CHECK(!trace_complete(trace));
    return;
  case TRACE_STACK:
    CHECK(o->other < TRACE_STACKS_MOST);
    return;
  case TRACE_THREAD_END:
    return;
  case TRACE_ALIGNED:
    CHECK(o->other <= TRACE_ALIGNMENT_LOG_MAX);
    break;
  case TRACE_FREE_FOREIGN:
  case TRACE_REALLOC_FOREIGN:
    CHECK(o->other != thread->thread);
    owner = o->other;
    break;
  case TRACE_TOUCHED:
    owner = o->other;
    break;
  default:
    break;
  }
  CHECK(o->size <= TRACE_SIZE_MOST);
  CHECK(trace_thread(trace, thread->process, owner) != NULL);
  CHECK(o->slot < trace_thread(trace, thread->process, owner)->slots);
}

/* Reads as much of a thread as possible, and writes it into the other trace if there is one. Returns whether the thread
 * was complete. */
static bool read_thread(trace_t *trace, const trace_thread_t *thread, trace_writer_t *writer) {
  trace_stream_t *stream = trace_stream_open(trace, thread->process, thread->thread);
  CHECK(stream != NULL);
  trace_operation_t batch[BATCH];
  uint64_t seen = 0, now = 0;
  bool ended = false;
  long count;
  while ((count = trace_stream_next(stream, batch, BATCH)) > 0) {
    for (long i = 0; i < count; i++, seen++) {
      check_operation(trace, thread, &batch[i]);
      CHECK(!ended && batch[i].time_ns >= now);
      now = batch[i].time_ns;
      ended = batch[i].kind == TRACE_THREAD_END;
      if (writer != NULL) {
        CHECK(trace_write_operation(writer, thread->process, thread->thread, &batch[i]) == 0);
      }
    }
  }
  CHECK(count == 0 ? seen == thread->operations : seen <= thread->operations);
  CHECK(count == 0 || strchr(trace_stream_error(stream), '\n') == NULL);
  CHECK(trace_stream_next(stream, batch, BATCH) == count);
  trace_stream_close(stream);
  return count == 0;
}

static void check_same(trace_t *first, trace_t *second, const trace_thread_t *thread) {
  CHECK(trace_thread(second, thread->process, thread->thread)->operations == thread->operations);
  trace_stream_t *one = trace_stream_open(first, thread->process, thread->thread);
  trace_stream_t *other = trace_stream_open(second, thread->process, thread->thread);
  CHECK(one != NULL && other != NULL);
  trace_operation_t a, b;
  while (trace_stream_next(one, &a, 1) == 1) {
    CHECK(trace_stream_next(other, &b, 1) == 1);
    CHECK(a.kind == b.kind && a.size == b.size && a.slot == b.slot && a.other == b.other);
  }
  CHECK(trace_stream_next(other, &b, 1) == 0);
  trace_stream_close(one);
  trace_stream_close(other);
}

/* A complete trace without an error in any thread can be written again, with the same contents. */
static void write_again(trace_t *trace) {
  int fd = memfd_create("again", MFD_CLOEXEC);
  char path[32], error[TRACE_ERROR_BYTES];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  trace_writer_t *writer = trace_writer_open(fd);
  CHECK(writer != NULL);
  for (uint32_t process = 0; process < trace_process_count(trace); process++) {
    for (uint32_t i = 0; i < trace_thread_count(trace, process); i++) {
      const trace_thread_t *thread = trace_thread(trace, process, i);
      CHECK(thread->operations == 0 || read_thread(trace, thread, writer));
    }
  }
  CHECK(trace_writer_close(writer, true, "{}", 2) == 0);
  trace_t *again = trace_open(path, error, sizeof error);
  CHECK(again != NULL && trace_complete(again));
  for (uint32_t process = 0; process < trace_process_count(trace); process++) {
    for (uint32_t i = 0; i < trace_thread_count(trace, process); i++) {
      if (trace_thread(trace, process, i)->operations > 0) {
        check_same(trace, again, trace_thread(trace, process, i));
      }
    }
  }
  trace_close(again);
  close(fd);
}

static void count_process(trace_t *trace, uint32_t process) {
  static stats_counts_t counts;
  stats_stacks_t stacks;
  CHECK(stats_stacks_open(&stacks, 4096));
  counts.stacks = &stacks;
  static char error[2 * TRACE_ERROR_BYTES];
  stats_thread_t *threads = calloc(trace_thread_count(trace, process) + (size_t)1, sizeof *threads);
  CHECK(threads != NULL);
  const char *wrong = stats_process(trace, process, &counts, threads, error, sizeof error);
  if (wrong != NULL) {
    CHECK(*wrong != '\0' && strchr(wrong, '\n') == NULL);
  } else {
    uint64_t kept = 0;
    for (int i = 0; i < BUCKETS; i++) {
      kept += counts.kept.count[i];
    }
    CHECK(kept == counts.live_blocks && counts.peak_blocks >= kept);
    CHECK(counts.lost == 0 || !trace_complete(trace));
    stats_print(nowhere(), trace, process, &counts, threads);
    stats_stacks_print(nowhere(), &counts);
  }
  stats_stacks_close(&stacks);
  free(threads);
}

static void read_texts(trace_t *trace, uint32_t process) {
  static char text[TRACE_CHUNK_BYTES];
  for (int kind = TRACE_INFO; kind <= TRACE_KIND_LAST; kind++) {
    size_t position = 0;
    long bytes;
    while ((bytes = trace_text(trace, (trace_chunk_kind_t)kind, process, &position, text, sizeof text)) != -1) {
      CHECK(bytes == -2 || (bytes >= 0 && (size_t)bytes <= sizeof text));
      stats_print_text(nowhere(), text, bytes < 0 ? 0 : (size_t)bytes);
    }
  }
}

void read_trace(const char *path) {
  char error[TRACE_ERROR_BYTES];
  trace_t *trace = trace_open(path, error, sizeof error);
  if (trace == NULL) {
    CHECK(error[0] != '\0' && strchr(error, '\n') == NULL);
    return;
  }
  bool all = true;
  uint32_t threads = 0;
  for (uint32_t process = 0; process < trace_process_count(trace); process++) {
    read_texts(trace, process);
    for (uint32_t i = 0; i < trace_thread_count(trace, process) && threads < MOST_THREADS; i++) {
      const trace_thread_t *thread = trace_thread(trace, process, i);
      if (thread->operations > 0) {
        threads++;
        all = read_thread(trace, thread, NULL) && all;
      }
    }
    if (trace_thread_count(trace, process) > 0) { // numbers may lie a million apart
      count_process(trace, process);
    }
  }
  if (all && trace_complete(trace) && threads < MOST_THREADS) {
    write_again(trace);
  }
  trace_close(trace);
}
