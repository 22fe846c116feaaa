/* Events counted by the processor or the kernel. This process opens them disabled. The program inherits them, and its
 * exec enables its own copies. So they count the program and everything that it starts, but not the launcher. They
 * count in user mode only, which needs no privileges. */
#include "launcher.h"

#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_one(uint32_t type, uint64_t config) {
  struct perf_event_attr event = {
      .type = type,
      .size = sizeof event,
      .config = config,
      .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
      .disabled = 1,
      .inherit = 1,
      .enable_on_exec = 1,
      .exclude_kernel = 1,
      .exclude_hv = 1,
  };
  return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* wanted: "TYPE:CONFIG,TYPE:CONFIG", the numbers of perf_event_open(2). */
counters_t counters_open(const char *wanted) {
  counters_t counters = {0};
  for (const char *at = wanted; *at && counters.count < MOST_COUNTERS; at += strspn(at, ",")) {
    char *end;
    uint32_t type = (uint32_t)strtoul(at, &end, 10);
    uint64_t config = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
    counters.fds[counters.count++] = open_one(type, config);
    at = end;
  }
  return counters;
}

/* If there are more events than counters of the processor, the events take turns, and the count is scaled. */
static double read_one(int fd) {
  uint64_t raw[3];
  if (fd < 0 || read(fd, raw, sizeof raw) != (ssize_t)sizeof raw || raw[2] == 0) {
    return -1;
  }
  return (double)raw[0] * ((double)raw[1] / (double)raw[2]);
}

void counters_print(const counters_t *counters) {
  printf(" counters=");
  for (int i = 0; i < counters->count; i++) {
    printf("%s%.0f", i ? "," : "", read_one(counters->fds[i]));
  }
}

void counters_close(counters_t *counters) {
  while (counters->count > 0) {
    int fd = counters->fds[--counters->count];
    if (fd >= 0) {
      close(fd);
    }
  }
}
