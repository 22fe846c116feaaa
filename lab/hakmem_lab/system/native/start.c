/* Where and when a program begins: its processors, and the line for which a held program waits. */
#include "launcher.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GO_BYTES = 3 };

static cpu_set_t set_of(const char *processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const char *p = processors; *p; p += strspn(p, ",")) {
    char *end;
    CPU_SET(strtoul(p, &end, 10), &set);
    p = end;
  }
  return set;
}

int start_pin(const char *processors) {
  cpu_set_t set = set_of(processors);
  return sched_setaffinity(0, sizeof set, &set);
}

bool start_has_moved(pid_t pid, const char *processors) {
  cpu_set_t wanted = set_of(processors), now;
  CPU_ZERO(&now);
  return sched_getaffinity(pid, sizeof now, &now) >= 0 && !CPU_EQUAL(&wanted, &now);
}

int start_wait_for_go(void) {
  char line[32], go[GO_BYTES];
  int length = snprintf(line, sizeof line, "held %d\n", (int)getpid());
  if (write(1, line, (size_t)length) != length) {
    return -1;
  }
  for (size_t got = 0; got < sizeof go;) {
    ssize_t n = read(0, go + got, sizeof go - got);
    if (n <= 0) {
      errno = n == 0 ? ECANCELED : errno;
      return -1;
    }
    got += (size_t)n;
  }
  return 0;
}
