// retention NAME [SCALE] [--cycles N] [--tail] [--tail-silent] | --list: one pattern of memory demand over time.
// SCALE: percent of the pattern's memory. Prints one line: CPU time, wall time, page faults, peak, and memory right
// after the last free. The line also has time and faults of the first and the last cycle, and the number of cycles
// before one has less than a tenth of the first cycle's faults. --tail: adds the memory after 5 s with 400 small calls
// a second. --tail-silent: adds the memory after 5 s without a call.
#include "retention.h"

enum { SCALE_MAX = 1000, CYCLES_LIMIT = 1000000 };

uint32_t scale_percent = PERCENT;
uint32_t forced_rounds;

static const pattern_t *const tables[] = {
    saw_patterns, service_patterns, cache_patterns, program_patterns, data_patterns, thread_patterns, NULL};

static const pattern_t *pattern_find(const char *name) {
  for (const pattern_t *const *table = tables; *table != NULL; table++)
    for (const pattern_t *pattern = *table; pattern->name != NULL; pattern++)
      if (strcmp(pattern->name, name) == 0)
        return pattern;
  return NULL;
}

static int list_patterns(void) {
  for (const pattern_t *const *table = tables; *table != NULL; table++)
    for (const pattern_t *pattern = *table; pattern->name != NULL; pattern++)
      printf("%-18s %s\n", pattern->name, pattern->what);
  return 0;
}

int main(int argc, char **argv) {
  static const char usage[] = "usage: retention NAME [SCALE] [--cycles N] [--tail] [--tail-silent], or --list";
  const pattern_t *pattern = NULL;
  bool tail = false, tail_silent = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--list") == 0)
      return list_patterns();
    if (strcmp(argv[i], "--tail") == 0)
      tail = true;
    else if (strcmp(argv[i], "--tail-silent") == 0)
      tail_silent = true;
    else if (strcmp(argv[i], "--cycles") == 0 && i + 1 < argc)
      forced_rounds = (uint32_t)bench_arg(argc, argv, ++i, "--cycles", 0, 1, CYCLES_LIMIT);
    else if (argv[i][0] == '-')
      bench_fail(usage);
    else if (pattern != NULL)
      scale_percent = (uint32_t)bench_arg(argc, argv, i, "SCALE", PERCENT, 1, SCALE_MAX);
    else if ((pattern = pattern_find(argv[i])) == NULL)
      bench_fail("retention: no pattern of that name; --list names them");
  }
  if (pattern == NULL)
    bench_fail(usage);
  measure_start();
  pattern->run(pattern);
  measure_report(pattern->name, tail, tail_silent);
  return 0;
}
