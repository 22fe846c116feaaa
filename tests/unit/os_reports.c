/* Writing to stderr, and to the file that was stderr at the start. */
#include "system/os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "pattern.h"
#include "system.h"

static const char first[] = "first\n", second[] = "second\n", third[] = "third\n", lost[] = "lost\n";

/* A write that is interrupted starts again. errno stays unchanged. */
static void write_errors(void) {
  errno = EDOM;
  system_refuse(SYSTEM_WRITE, 0, 3);
  hak_os_write_error(first, sizeof first - 1);
  hak_os_write_error(second, sizeof second - 1);
  CHECK(errno == EDOM);
  int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  CHECK(full >= 0 && dup2(full, STDERR_FILENO) == STDERR_FILENO);
  errno = EDOM;
  hak_os_write_error(lost, sizeof lost - 1);
  CHECK(close(STDERR_FILENO) == 0);
  errno = EDOM;
  hak_os_write_error(lost, sizeof lost - 1);
  CHECK(errno == EDOM);
}

static void errors_are_written(void) {
  ChildResult result;
  child_run(write_errors, &result);
  CHECK(result.status == 0 && strcmp(result.errors, "first\nsecond\n") == 0);
}

static char report[64], data[64];

/* Makes a file that can become stderr. */
static int make_file(char name[64]) {
  snprintf(name, 64, "/tmp/hakmem-unit-os-XXXXXX");
  int file = mkstemp(name);
  CHECK(file >= 0);
  return file;
}

static void becomes_stderr(int file) {
  CHECK(dup2(file, STDERR_FILENO) == STDERR_FILENO && close(file) == 0);
}

static void must_hold(const char *name, const char *expected) {
  char text[64] = "";
  int file = open(name, O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0 && read(file, text, sizeof text - 1) == (ssize_t)strlen(expected) && strcmp(text, expected) == 0);
  CHECK(close(file) == 0 && unlink(name) == 0);
}

/* If stderr is not remembered, the present one is used. Once it is, reports go to that file, not to its number. */
static void a_report_goes_where_stderr_was(void) {
  becomes_stderr(make_file(report));
  hak_os_write_report(first, sizeof first - 1);
  hak_os_remember_stderr();
  hak_os_write_report(second, sizeof second - 1);
  CHECK(close(STDERR_FILENO) == 0);
  int other = make_file(data); /* gets the number of stderr */
  CHECK(other == STDERR_FILENO);
  errno = EDOM;
  hak_os_write_report(third, sizeof third - 1);
  CHECK(errno == EDOM);
  CHECK(close(STDERR_FILENO) == 0);
  hak_os_write_report(third, sizeof third - 1);
  must_hold(report, "first\nsecond\nthird\nthird\n");
  must_hold(data, "");
}

/* The name of the closed file now leads to another file. */
static void a_report_goes_to_no_other_file(void) {
  becomes_stderr(make_file(report));
  hak_os_remember_stderr();
  CHECK(rename(report, strcpy(data, "/tmp/hakmem-unit-os-moved")) == 0);
  int other = open(report, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  CHECK(other > STDERR_FILENO && close(STDERR_FILENO) == 0);
  hak_os_write_report(third, sizeof third - 1);
  must_hold(report, "");
  must_hold(data, "third\n");
}

/* A pipe has no name by which to open it, but the copy of its descriptor is still open. */
static void a_report_goes_to_a_closed_pipe(void) {
  hak_os_remember_stderr();
  hak_os_write_report(first, sizeof first - 1);
  CHECK(close(STDERR_FILENO) == 0);
  int other = make_file(data);
  CHECK(other == STDERR_FILENO);
  hak_os_write_report(second, sizeof second - 1);
  must_hold(data, "");
}

static void reports_are_written(void) {
  ChildResult result;
  child_succeeds(a_report_goes_where_stderr_was);
  child_succeeds(a_report_goes_to_no_other_file);
  child_run(a_report_goes_to_a_closed_pipe, &result);
  CHECK(result.status == 0 && strcmp(result.errors, "first\nsecond\n") == 0);
}

int main(void) {
  errors_are_written();
  reports_are_written();
  return 0;
}
