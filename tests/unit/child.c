#include "child.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "system/options.h"

static size_t read_all(int file, char *buffer, size_t capacity) {
  size_t length = 0;
  char rest[512];
  for (;;) {
    bool full = length + 1 == capacity;
    ssize_t n = full ? read(file, rest, sizeof rest) : read(file, buffer + length, capacity - 1 - length);
    if (n <= 0) {
      break;
    }
    length += full ? 0 : (size_t)n;
  }
  buffer[length] = '\0';
  return length;
}

static void run(void (*body)(void), bool verbose, ChildResult *result) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    if (verbose) {
      hak_option_values[HAK_OPTION_VERBOSE] = 1; /* messages name the address */
    }
    body();
    exit(0);
  }
  CHECK(close(ends[1]) == 0);
  result->length = read_all(ends[0], result->errors, sizeof result->errors);
  CHECK(close(ends[0]) == 0);
  CHECK(waitpid(child, &result->status, 0) == child);
}

void child_run(void (*body)(void), ChildResult *result) {
  run(body, true, result);
}

static void require(bool condition, const ChildResult *result, const char *expected) {
  if (!condition) {
    fprintf(stderr, "the child should %s; its status is %#x and its stderr:\n%s", expected, (unsigned)result->status,
            result->errors);
  }
  CHECK(condition);
}

void child_succeeds(void (*body)(void)) {
  ChildResult result;
  run(body, false, &result);
  require(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0, &result, "end well");
}

/* An emulator may add a line of its own. */
static bool is_end_of_errors(const char *at) {
  return *at == '\0' || strncmp(at, "qemu: ", 6) == 0;
}

static bool is_aborted(const ChildResult *result) {
  return WIFSIGNALED(result->status) && WTERMSIG(result->status) == SIGABRT;
}

void child_is_stopped(void (*body)(void), const char *function, const char *reason, const void *address) {
  ChildResult result;
  char line[200], end[40];
  snprintf(line, sizeof line, "hakmem: %s(): %s: ", function, reason);
  snprintf(end, sizeof end, ": 0x%jx\n", (uintmax_t)(uintptr_t)address);
  child_run(body, &result);
  const char *found = strstr(result.errors, end);
  bool is_named =
      strncmp(result.errors, line, strlen(line)) == 0 && found == strchr(result.errors, '\n') - strlen(end) + 1;
  require(is_aborted(&result) && is_named && is_end_of_errors(found + strlen(end)), &result, line);
}

void child_breaks_invariant(void (*body)(void)) {
  static const char expected[] = "hakmem: heap invariant violated: ";
  ChildResult result;
  child_run(body, &result);
  require(is_aborted(&result) && strncmp(result.errors, expected, sizeof expected - 1) == 0, &result, expected);
}
