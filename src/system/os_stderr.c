/* The destination of reports: standard error, even after the program has closed it. */
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
  bool known;
  int copy; /* a descriptor of the same file, for programs that close stderr before exit; 0 or less: none */
  struct stat status;
} remembered HAK_LARGE_DATA;

/* Least number of the copy, above the small numbers that the program itself uses. */
enum { COPY_AT = 1000 };

void hak_os_remember_stderr(void) {
  int saved = errno;
  remembered.known = fstat(STDERR_FILENO, &remembered.status) == 0;
  for (int least = COPY_AT; remembered.known && remembered.copy <= 0 && least > STDERR_FILENO; least /= 4) {
    remembered.copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, least); /* lower if the limit requires it */
  }
  errno = saved;
}

/* The number may belong to another file since the program closed it. */
static bool is_remembered(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && status.st_dev == remembered.status.st_dev &&
         status.st_ino == remembered.status.st_ino;
}

void hak_os_write_report(const char *text, size_t length) {
  int saved = errno;
  if (!remembered.known || is_remembered(STDERR_FILENO)) {
    hak_os_write(STDERR_FILENO, text, length);
  } else if (is_remembered(remembered.copy)) {
    hak_os_write(remembered.copy, text, length);
  }
  errno = saved;
}

void hak_os_write_error(const char *text, size_t length) {
  int saved = errno;
  if (hak_os_write(STDERR_FILENO, text, length) == EBADF && remembered.known) {
    hak_os_write_report(text, length);
  }
  errno = saved;
}
