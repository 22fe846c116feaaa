#include "trap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

_Noreturn void trap_skip(const char *why) {
  dprintf(STDOUT_FILENO, "skipped: %s\n", why);
  _exit(TRAP_SKIP);
}

enum { PROGRESS_MS = 20, MS_PER_S = 1000, US_PER_MS = 1000 };

static unsigned watch_s;
static long watched_ms;

static long spent_ms(int who) {
  struct rusage spent;
  CHECK(getrusage(who, &spent) == 0);
  return (spent.ru_utime.tv_sec + spent.ru_stime.tv_sec) * MS_PER_S +
         (spent.ru_utime.tv_usec + spent.ru_stime.tv_usec) / US_PER_MS;
}

static void watch(int number) {
  long now = spent_ms(RUSAGE_SELF) + spent_ms(RUSAGE_CHILDREN);
  if (now < watched_ms + PROGRESS_MS || now > 2L * watch_s * MS_PER_S) {
    signal(number, SIG_DFL);
    raise(number); /* the signal takes effect when this handler returns and unblocks it */
    return;
  }
  watched_ms = now;
  alarm(watch_s);
}

void trap_watchdog(unsigned seconds) {
  watch_s = seconds;
  struct sigaction action = {.sa_handler = watch, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  alarm(seconds);
}

static size_t read_all(int from, char *text, size_t capacity) {
  size_t length = 0;
  ssize_t n;
  do {
    n = read(from, text + length, capacity - 1 - length);
    length += n > 0 ? (size_t)n : 0;
  } while (n > 0 || (n < 0 && errno == EINTR));
  text[length] = '\0';
  return length;
}

TrapEnd trap_in_child(void (*act)(void *argument), void *argument) {
  TrapEnd end = {0, ""};
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    act(argument);
    _exit(0);
  }
  close(ends[1]);
  read_all(ends[0], end.text, sizeof end.text);
  close(ends[0]);
  while (waitpid(child, &end.status, 0) != child) {
    CHECK(errno == EINTR);
  }
  return end;
}

static bool is_reason(const char *text) {
  static const char *const reasons[] = {"invalid pointer", "not the start of a block", "double free",
                                        "double free or corrupted free block"};
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    size_t length = strlen(reasons[i]);
    if (strncmp(text, reasons[i], length) == 0 && strncmp(text + length, ": ", 2) == 0) {
      return true;
    }
  }
  return false;
}

bool trap_is_misuse(const TrapEnd *end) {
  const char *reason = strstr(end->text, "(): "), *newline = strchr(end->text, '\n');
  return WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGABRT && strncmp(end->text, "hakmem: ", 8) == 0 &&
         reason && is_reason(reason + 4) && newline && newline[1] == '\0';
}

uint64_t trap_stat(const char *section, const char *name) {
  static char text[1 << 16];
  char wanted[64];
  CHECK(HAK(hak_stats_json)(text, sizeof text) < sizeof text);
  snprintf(wanted, sizeof wanted, "\"%s\":{", section);
  const char *at = strstr(text, wanted);
  CHECK(at != NULL);
  snprintf(wanted, sizeof wanted, "\"%s\":", name);
  at = strstr(at, wanted);
  CHECK(at != NULL);
  return strtoull(at + strlen(wanted), NULL, 10);
}

uint64_t trap_os_calls(void) {
  static const char *const names[] = {"mmap", "munmap", "madvise", "mprotect", "mremap"};
  uint64_t calls = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    calls += trap_stat("os_calls", names[i]);
  }
  return calls;
}

void trap_each_line(const char *path, void (*visit)(const char *line, void *argument), void *argument) {
  char buffer[4096], line[256];
  size_t length = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  for (ssize_t n; (n = read(file, buffer, sizeof buffer)) > 0;) {
    for (ssize_t i = 0; i < n; i++) {
      if (buffer[i] == '\n') {
        line[length] = '\0';
        visit(line, argument);
        length = 0;
      } else if (length < sizeof line - 1) {
        line[length++] = buffer[i];
      }
    }
  }
  close(file);
}

static void read_statm(const char *line, void *argument) {
  const char *resident = strchr(line, ' ');
  CHECK(resident != NULL);
  *(size_t *)argument = strtoul(resident, NULL, 10) * ((size_t)sysconf(_SC_PAGESIZE) / 1024);
}

size_t trap_rss_kib(void) {
  size_t kib = 0;
  trap_each_line("/proc/self/statm", read_statm, &kib);
  return kib;
}
