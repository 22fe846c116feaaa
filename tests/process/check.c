#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

_Noreturn void check_fail(const char *file, int line, const char *condition) {
  dprintf(STDERR_FILENO, "%s:%d: check failed: %s (errno %d, process %d)\n", file, line, condition, errno,
          (int)getpid());
  _exit(1);
}

unsigned check_count(const char *text) {
  char *end = NULL;
  unsigned long value = strtoul(text, &end, 10);
  CHECK(end != text && *end == '\0');
  CHECK(value > 0 && value <= 1000000);
  return (unsigned)value;
}

void check_child(pid_t child) {
  int status = -1;
  CHECK(child > 0);
  while (waitpid(child, &status, 0) != child)
    CHECK(errno == EINTR);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

size_t check_rss_kib(void) {
  char text[128];
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  ssize_t length = read(file, text, sizeof text - 1);
  CHECK(length > 0);
  close(file);
  text[length] = '\0';
  char *resident = strchr(text, ' ');
  CHECK(resident != NULL);
  return strtoul(resident, NULL, 10) * ((size_t)sysconf(_SC_PAGESIZE) / 1024);
}

void check_growth(size_t before_kib, size_t limit_kib) {
  size_t now_kib = check_rss_kib();
  if (now_kib <= before_kib + limit_kib)
    return;
  dprintf(STDERR_FILENO, "resident memory grew from %zu to %zu KiB\n", before_kib, now_kib);
  CHECK(now_kib <= before_kib + limit_kib);
}

void check_run_again(const char *argument) {
  char program[4096];
  char copy[64];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  CHECK(length > 0);
  program[length] = '\0';
  CHECK(snprintf(copy, sizeof copy, "%s", argument) < (int)sizeof copy);
  char *arguments[] = {program, copy, NULL};
  pid_t child = -1;
  CHECK(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0);
  check_child(child);
}

void check_copy_file(const char *from, const char *to) {
  static char buffer[1 << 16];
  int source = open(from, O_RDONLY | O_CLOEXEC);
  int target = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
  CHECK(source >= 0);
  CHECK(target >= 0);
  ssize_t length;
  while ((length = read(source, buffer, sizeof buffer)) > 0) {
    CHECK(write(target, buffer, (size_t)length) == length);
  }
  CHECK(length == 0);
  CHECK(close(target) == 0);
  close(source);
}

uint64_t check_random(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  *state = x;
  return x;
}
