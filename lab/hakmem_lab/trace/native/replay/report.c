// One line of JSON about a process that was replayed.
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "replay.h"

static replay_counts_t sum(void) {
  replay_counts_t all = {0};
  for (uint32_t i = 0; i < replay.count; i++) {
    const uint64_t *mine = (const uint64_t *)&replay.workers[i].counts;
    for (size_t field = 0; field < sizeof all / sizeof(uint64_t); field++) {
      ((uint64_t *)&all)[field] += mine[field];
    }
  }
  return all;
}

static void number(const char *name, uint64_t value) {
  printf("\"%s\": %llu, ", name, (unsigned long long)value);
}

// Marks the end of the load, where that is measured, and reads what memory is left once the mark has been answered.
static void after_load(uint64_t image_kib) {
  const char *mark = getenv("HAK_MARK");
  char done[PATH_MAX], byte = '\n';
  if (mark == NULL) {
    return;
  }
  snprintf(done, sizeof done, "%s.done", mark);
  int asked = open(mark, O_WRONLY | O_CLOEXEC), answered = open(done, O_RDONLY | O_CLOEXEC);
  if (asked >= 0 && answered >= 0 && write(asked, &byte, 1) == 1 && read(answered, &byte, 1) == 1) {
    uint64_t raw = replay_check_limit(), own = (replay_own_bytes() >> 10) + image_kib;
    number("after_load_kib", raw > own ? raw - own : 0);
  }
  close(asked);
  close(answered);
}

void replay_report(uint64_t start_ns, uint64_t wall_ns) {
  replay_memory_t memory = replay_memory_end();
  replay_counts_t all = sum();
  double loop_ns =
      all.empty_operations ? (double)all.empty_ns / (double)all.empty_operations * (double)all.operations : 0;
  double net_ns = (double)all.cpu_ns - loop_ns, net_elapsed_ns = (double)all.elapsed_ns - loop_ns;
  printf("{");
  number("process", replay.process);
  number("threads", replay.count);
  number("operations", all.operations);
  number("allocations", all.allocations);
  number("frees", all.frees);
  number("reallocations", all.reallocations);
  number("skipped", all.skipped);
  number("failed", all.failed);
  number("unordered", all.unordered);
  number("segments", all.segments);
  printf("\"seconds\": %.9f, \"elapsed_s\": %.9f, ", net_ns / 1e9, net_elapsed_ns / 1e9);
  printf("\"loop_s\": %.9f, \"start_s\": %.6f, \"wall_s\": %.6f, ", loop_ns / 1e9, (double)start_ns / 1e9,
         (double)wall_ns / 1e9);
  number("rss_peak_kib", memory.peak_kib);
  printf("\"rss_mean_kib\": %.1f, ", memory.mean_kib);
  number("raw_peak_kib", memory.raw_peak_kib);
  number("own_kib", memory.own_kib);
  number("image_kib", memory.image_kib);
  after_load(memory.image_kib);
  printf("\"complete\": %s, \"series\": [", replay.complete ? "true" : "false");
  for (size_t i = 0; i < memory.points; i++) {
    printf("%s[%.3f, %llu]", i ? ", " : "", (double)memory.series[i].at_ns / 1e6,
           (unsigned long long)memory.series[i].kib);
  }
  printf("]");
  replay_stacks_report();
  replay_blame_report(memory.image_kib);
  printf("}\n");
}
