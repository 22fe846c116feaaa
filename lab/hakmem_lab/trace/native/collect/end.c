// Makes the JSON text at the end of a trace: the ending, and the counts of all processes.
#include "collect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_BYTES = 256 << 10 }; // room for the text after the processes

static void write_counts(FILE *out, const pack_counts_t *counts) {
  fprintf(out,
          "\"operations\": %" PRIu64 ", \"allocations\": %" PRIu64 ", \"frees\": %" PRIu64
          ", \"reallocations\": %" PRIu64 ", \"handed_over\": %" PRIu64 ", \"unknown_frees\": %" PRIu64
          ", \"lost_frees\": %" PRIu64 ", \"live_bytes\": %" PRIu64 ", \"live_blocks\": %" PRIu64,
          counts->operations, counts->allocations, counts->frees, counts->reallocations, counts->handed_over,
          counts->unknown_frees, counts->lost_frees, counts->live_bytes, counts->live_blocks);
}

static void write_process(FILE *out, const process_t *process) {
  fprintf(out,
          "{\"process\": %" PRIu32 ", \"pid\": %d, \"wall_s\": %.6f, \"cpu_s\": %.3f, \"rss_peak_kib\": %" PRIu64
          ", \"recorder_kib\": %" PRIu64,
          process->number, (int)process->pid,
          (double)((process->died_ns ? process->died_ns : clock_now_ns()) - process->began_ns) / 1e9,
          (double)process->cpu_ms / 1e3, process->peak_kib, process_own_kib(process));
  if (process->exited && process->signal)
    fprintf(out, ", \"signal\": %d", process->signal);
  else if (process->exited)
    fprintf(out, ", \"exit\": %d", process->exit_code);
  else if (process->died_ns && !process->left) // its parent knows why
    fputs(", \"cut_off\": true", out);
  fprintf(out, ", \"waits\": %" PRIu32 ", ", process->waits);
  write_counts(out, &process->counts);
  putc('}', out);
}

static void add(pack_counts_t *sum, const pack_counts_t *counts) {
  sum->operations += counts->operations;
  sum->allocations += counts->allocations;
  sum->frees += counts->frees;
  sum->reallocations += counts->reallocations;
  sum->handed_over += counts->handed_over;
  sum->unknown_frees += counts->unknown_frees;
  sum->lost_frees += counts->lost_frees;
  sum->live_bytes += counts->live_bytes;
  sum->live_blocks += counts->live_blocks;
}

// Writes an object for each process while the text has room. The counts include all processes.
static void write_processes(FILE *out, const size_t *written, pack_counts_t *sum) {
  unsigned count = 0;
  fputs(", \"processes\": [", out);
  for (const process_t *process = processes_first(); process != NULL; process = process->next, count++) {
    add(sum, &process->counts);
    fflush(out);
    if (*written > TRACE_CHUNK_BYTES - ROOM_BYTES)
      continue;
    fputs(count ? ", " : "", out);
    write_process(out, process);
  }
  fprintf(out, "], \"process_count\": %u, ", count);
}

char *end_describe(const ending_t *ending) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL)
    return NULL;
  fputs("{\"reason\": ", out);
  if (ending->reason != NULL)
    json_string(out, ending->reason, strlen(ending->reason));
  else
    fputs("null", out);
  fprintf(out, ", \"recorded_s\": %.6f", (double)clock_now_ns() / 1e9);
  if (ending->wall_s > 0)
    fprintf(out, ", \"wall_s\": %.6f, \"cpu_s\": %.6f", ending->wall_s, ending->cpu_s);
  pack_counts_t sum = {0};
  write_processes(out, &bytes, &sum);
  write_counts(out, &sum);
  fputs(", \"not_recorded\": ", out);
  strangers_write(out);
  putc('}', out);
  return fclose(out) == 0 ? text : NULL;
}
