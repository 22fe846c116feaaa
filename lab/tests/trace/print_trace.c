/* print_trace FILE [BATCH]: prints a trace, thread by thread, as the script that would write it (see write_trace.c).
 * The last line is "e", whether the trace is complete, and how many bytes are cut off. An error gives one line on
 * standard error and exit status 1. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/read.h"

static char text[TRACE_CHUNK_BYTES];

static void print_texts(trace_t *trace, trace_chunk_kind_t kind, uint32_t process) {
  size_t position = 0;
  long bytes;
  while ((bytes = trace_text(trace, kind, process, &position, text, sizeof text)) >= 0) {
    printf("t %d %" PRIu32 " %.*s\n", kind, process, (int)bytes, text);
  }
  if (bytes == -2) {
    fprintf(stderr, "a text of kind %d is damaged\n", kind);
    exit(1);
  }
}

static void print_thread(trace_t *trace, uint32_t process, uint32_t thread, size_t batch) {
  trace_stream_t *stream = trace_stream_open(trace, process, thread);
  trace_operation_t *operations = malloc(batch * sizeof *operations);
  if (stream == NULL || operations == NULL) {
    perror("print_trace");
    exit(1);
  }
  long count;
  while ((count = trace_stream_next(stream, operations, batch)) > 0) {
    for (long i = 0; i < count; i++) {
      const trace_operation_t *o = &operations[i];
      printf("o %" PRIu32 " %" PRIu32 " %d %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu64 "\n", process, thread, o->kind,
             o->size, o->slot, o->other, o->time_ns);
    }
  }
  if (count < 0) {
    fprintf(stderr, "%s\n", trace_stream_error(stream));
    exit(1);
  }
  free(operations);
  trace_stream_close(stream);
}

int main(int argc, char **argv) {
  char error[TRACE_ERROR_BYTES];
  size_t batch = argc > 2 ? (size_t)atol(argv[2]) : 4096;
  trace_t *trace = argc > 1 ? trace_open(argv[1], error, sizeof error) : NULL;
  if (trace == NULL) {
    fprintf(stderr, "%s\n", argc > 1 ? error : "usage: print_trace FILE [BATCH]");
    return 1;
  }
  print_texts(trace, TRACE_INFO, 0);
  for (uint32_t process = 0; process < trace_process_count(trace); process++) {
    print_texts(trace, TRACE_PROCESS, process);
    print_texts(trace, TRACE_RESIDENT, process);
    for (uint32_t thread = 0; thread < trace_thread_count(trace, process); thread++) {
      print_thread(trace, process, thread, batch);
    }
  }
  print_texts(trace, TRACE_END, 0);
  printf("e %d %" PRIu64 "\n", trace_complete(trace), trace_cut_bytes(trace));
  trace_close(trace);
  return 0;
}
