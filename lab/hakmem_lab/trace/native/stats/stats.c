// hak-trace: prints the contents of a trace as one JSON object.
//   hak-trace TRACE             its texts, and the counts of each process
//   hak-trace TRACE PROCESS     the same for one process
//   hak-trace TRACE texts       only its texts, with the resident memory; it reads no operations
//   hak-trace TRACE stacks MEAN [PROCESS]  also the counts by stack; MEAN: bytes between samples, 1: every call
// The texts of the trace are printed as strings, since they are untrusted. An error is one line on standard error; the
// exit status is 2 if the file is damaged or no trace.
#include "stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_DAMAGED = 2 };

static const char *path;
static uint64_t text_bytes;

static _Noreturn void stop(const char *wrong) {
  fprintf(stderr, "%s\n", wrong);
  exit(EXIT_DAMAGED);
}

static _Noreturn void stop_file(const char *what) {
  fprintf(stderr, "%s %s\n", path, what);
  exit(EXIT_DAMAGED);
}

// Prints ,"name":"the first text of this kind", or all texts of this kind as a list.
static void print_texts(trace_t *trace, const char *name, trace_chunk_kind_t kind, uint32_t process, bool all) {
  static char text[TRACE_CHUNK_BYTES];
  size_t position = 0;
  long bytes;
  uint32_t count = 0;
  printf(all ? ",\"%s\":[" : ",\"%s\":", name);
  while ((all || count == 0) && (bytes = trace_text(trace, kind, process, &position, text, sizeof text)) != -1) {
    if (bytes < 0) {
      stop_file("is damaged: one of its texts does not unpack");
    }
    text_bytes += (uint64_t)bytes;
    if (text_bytes > TRACE_TEXT_BYTES) {
      stop_file("is damaged: it holds more text than any trace that hak writes");
    }
    fputs(count++ ? "," : "", stdout);
    stats_print_text(stdout, text, (size_t)bytes);
  }
  fputs(all ? "]" : count ? "" : "null", stdout);
}

static void print_process(trace_t *trace, uint32_t process, bool texts_alone, double mean, FILE *history) {
  printf("{\"process\":%" PRIu32, process);
  print_texts(trace, "about", TRACE_PROCESS, process, false);
  if (texts_alone) {
    print_texts(trace, "resident", TRACE_RESIDENT, process, true);
    putchar('}');
    return;
  }
  stats_stacks_t stacks = {0};
  stats_counts_t *counts = calloc(1, sizeof *counts);
  stats_thread_t *threads = calloc(trace_thread_count(trace, process) + (size_t)1, sizeof *threads);
  if (counts == NULL || threads == NULL || (mean > 0 && !stats_stacks_open(&stacks, mean))) {
    stop("no memory for the counts");
  }
  counts->stacks = mean > 0 ? &stacks : NULL;
  counts->history = history;
  static char error[2 * TRACE_ERROR_BYTES];
  const char *wrong = stats_process(trace, process, counts, threads, error, sizeof error);
  if (wrong == error) {
    fprintf(stderr, "%s: %s\n", path, error);
    exit(EXIT_DAMAGED);
  } else if (wrong != NULL) {
    fprintf(stderr, "%s: the trace is damaged in process %" PRIu32 ": %s\n", path, process, wrong);
    exit(EXIT_DAMAGED);
  }
  stats_print(stdout, trace, process, counts, threads);
  if (mean > 0) {
    print_texts(trace, "stacks", TRACE_STACKS, process, true);
    stats_stacks_print(stdout, counts);
  }
  putchar('}');
  stats_stacks_close(&stacks);
  free(counts);
  free(threads);
}

// Whether the trace has anything of this process; other numbers below the count are left out.
static bool is_there(trace_t *trace, uint32_t process) {
  static char text[TRACE_CHUNK_BYTES];
  size_t position = 0;
  return trace_thread_count(trace, process) > 0 ||
         trace_text(trace, TRACE_PROCESS, process, &position, text, sizeof text) != -1;
}

static uint32_t parse_process(const trace_t *trace, const char *word) {
  char *end;
  unsigned long number = strtoul(word, &end, 10);
  if (*word < '0' || *word > '9' || *end != '\0' || number >= trace_process_count(trace)) {
    fprintf(stderr, "%s has no process %s; it has %" PRIu32 "\n", path, word, trace_process_count(trace));
    exit(EXIT_DAMAGED);
  }
  return (uint32_t)number;
}

int main(int argc, char **argv) {
  double mean = argc > 3 && strcmp(argv[2], "stacks") == 0 ? strtod(argv[3], NULL) : 0;
  bool past = argc == 5 && strcmp(argv[2], "history") == 0;
  const char *which = mean > 0 || past ? argv[4] : argc > 2 ? argv[2] : NULL;
  if (argc < 2 || argc > (mean > 0 || past ? 5 : 3)) {
    stop("usage: hak-trace TRACE [PROCESS | texts | stacks MEAN [PROCESS] | history FILE PROCESS]");
  }
  FILE *history = past ? fopen(argv[3], "we") : NULL;
  if (past && history == NULL) {
    stop("the file of the history cannot be written");
  }
  path = argv[1];
  char error[TRACE_ERROR_BYTES];
  trace_t *trace = trace_open(path, error, sizeof error);
  if (trace == NULL) {
    stop(error);
  }
  bool texts_alone = which != NULL && strcmp(which, "texts") == 0;
  uint32_t from = 0, to = trace_process_count(trace);
  if (which != NULL && !texts_alone) {
    from = parse_process(trace, which);
    to = from + 1;
  }
  printf("{\"complete\":%s,\"cut_bytes\":%" PRIu64 ",\"file_bytes\":%" PRIu64 ",\"process_count\":%" PRIu32,
         trace_complete(trace) ? "true" : "false", trace_cut_bytes(trace), trace_file_bytes(trace),
         trace_process_count(trace));
  print_texts(trace, "info", TRACE_INFO, 0, false);
  print_texts(trace, "end", TRACE_END, 0, false);
  fputs(",\"processes\":[", stdout);
  const char *between = "";
  for (uint32_t process = from; process < to; process++) {
    if (is_there(trace, process)) {
      fputs(between, stdout);
      print_process(trace, process, texts_alone, mean, history);
      between = ",";
    }
  }
  puts("]}");
  trace_close(trace);
  if (history != NULL && fclose(history) != 0) {
    stop("the file of the history cannot be written");
  }
  return fflush(stdout) == 0 ? 0 : 1;
}
