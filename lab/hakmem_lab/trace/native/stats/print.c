// The counts of a process as JSON. Histograms: [least value, count, bytes] of each bucket that is not empty.
#include <inttypes.h>

#include "stats.h"

enum { THREADS_LISTED = 1000 };

static uint64_t least_of(unsigned bucket) {
  return bucket < 4 ? bucket : (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

static void print_histogram(FILE *out, const char *name, const histogram_t *histogram) {
  fprintf(out, ",\"%s\":[", name);
  const char *between = "";
  for (unsigned i = 0; i < BUCKETS; i++) {
    if (histogram->count[i] > 0) {
      fprintf(out, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", between, least_of(i), histogram->count[i],
              histogram->bytes[i]);
      between = ",";
    }
  }
  fputc(']', out);
}

// [number, count] of each count above 0.
static void print_counts(FILE *out, const char *name, const uint64_t *counts, unsigned number) {
  fprintf(out, ",\"%s\":[", name);
  const char *between = "";
  for (unsigned i = 0; i < number; i++) {
    if (counts[i] > 0) {
      fprintf(out, "%s[%u,%" PRIu64 "]", between, i, counts[i]);
      between = ",";
    }
  }
  fputc(']', out);
}

// [start in ns, most live bytes, live blocks, allocations so far] of each stretch that has operations.
static void print_timeline(FILE *out, const stats_counts_t *counts) {
  fputs(",\"timeline\":[", out);
  const char *between = "";
  for (uint32_t i = 0; i < TIMELINE; i++) {
    const moment_t *moment = &counts->timeline[i];
    if (moment->seen) {
      fprintf(out, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", between,
              counts->began_ns + i * counts->moment_ns, moment->most_bytes, moment->live_blocks, moment->allocations);
      between = ",";
    }
  }
  fputc(']', out);
}

// The first THREADS_LISTED threads, each as [number, operations, allocations, handed over], and the number of all.
static void print_threads(FILE *out, const trace_t *trace, uint32_t process, const stats_thread_t *threads) {
  uint64_t seen = 0;
  fputs(",\"threads\":[", out);
  const char *between = "";
  for (uint32_t i = 0; i < trace_thread_count(trace, process); i++) {
    if (trace_thread(trace, process, i)->operations == 0) {
      continue;
    }
    if (seen++ < THREADS_LISTED) {
      fprintf(out, "%s[%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", between, i, threads[i].operations,
              threads[i].allocations, threads[i].handed_over);
      between = ",";
    }
  }
  fprintf(out, "],\"thread_count\":%" PRIu64, seen);
}

static void print_kinds(FILE *out, const stats_counts_t *counts) {
  static const char *const names[] = {"malloc",  "calloc",          "aligned", "free", "free_foreign",
                                      "realloc", "realloc_foreign", "touched", "wait"};
  fputs(",\"kinds\":{", out);
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", names[i], counts->by_kind[i]);
  }
  fputc('}', out);
}

void stats_print(FILE *out, const trace_t *trace, uint32_t process, const stats_counts_t *counts,
                 const stats_thread_t *threads) {
  const struct {
    const char *name;
    uint64_t value;
  } numbers[] = {
      {"operations", counts->operations},
      {"allocations", counts->allocations},
      {"allocated_bytes", counts->allocated_bytes},
      {"grown", counts->grown},
      {"shrunk", counts->shrunk},
      {"handed_over", counts->handed_over},
      {"lost", counts->lost},
      {"kept_blocks", counts->live_blocks},
      {"kept_bytes", counts->live_bytes},
      {"peak_blocks", counts->peak_blocks},
      {"peak_bytes", counts->peak_bytes},
      {"peak_time_ns", counts->peak_time_ns},
      {"touch_known_bytes", counts->touch_known_bytes},
      {"touched_bytes", counts->touched_bytes},
      {"began_ns", counts->began_ns},
      {"ended_ns", counts->ended_ns},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    fprintf(out, ",\"%s\":%" PRIu64, numbers[i].name, numbers[i].value);
  }
  print_kinds(out, counts);
  print_counts(out, "small_sizes", counts->small, SMALL);
  print_counts(out, "alignments", counts->alignments, ALIGNMENTS);
  print_histogram(out, "sizes", &counts->sizes);
  print_histogram(out, "kept", &counts->kept);
  print_histogram(out, "life_operations", &counts->life_operations);
  print_histogram(out, "life_bytes", &counts->life_bytes);
  print_histogram(out, "life_ns", &counts->life_ns);
  print_timeline(out, counts);
  print_threads(out, trace, process, threads);
}

void stats_print_text(FILE *out, const char *text, size_t bytes) {
  fputc('"', out);
  for (size_t i = 0; i < bytes; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (byte == '"' || byte == '\\') {
      fputc('\\', out);
      fputc(byte, out);
    } else if (byte < 0x20) {
      fprintf(out, "\\u%04x", byte);
    } else {
      fputc(byte, out);
    }
  }
  fputc('"', out);
}
