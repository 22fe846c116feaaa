/* The destination of reports: standard error, even after the program has closed it. */
#include "direct.h"
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
  bool known;
  int copy; /* a descriptor of the same file, for programs that close stderr before exit; 0: none */
  struct stat status;
  char name[256]; /* empty: it has no name */
} remembered;

static bool is_remembered(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && status.st_dev == remembered.status.st_dev &&
         status.st_ino == remembered.status.st_ino;
}

/* Least number of the copy, above the small numbers that the program itself uses. */
enum { COPY_AT = 1000 };

void hak_os_remember_stderr(void) {
  int saved = errno;
  remembered.known = fstat(STDERR_FILENO, &remembered.status) == 0;
  for (int least = COPY_AT; remembered.known && remembered.copy <= 0 && least > STDERR_FILENO; least /= 4) {
    remembered.copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, least); /* lower if the limit requires it */
  }
  ssize_t length = readlink("/proc/self/fd/2", remembered.name, sizeof remembered.name - 1);
  remembered.name[length > 0 ? length : 0] = '\0';
  errno = saved;
}

/* A descriptor of the remembered file. -1: the program closed it, and it cannot be opened by name. */
static int open_remembered(void) {
  int fd =
      remembered.name[0] == '/' ? open(remembered.name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
  if (fd >= 0 && !is_remembered(fd)) {
    close(fd);
    fd = -1;
  }
  return fd;
}

typedef struct entry {
  uint64_t inode;
  int64_t next;
  uint16_t bytes;
  uint8_t type;
  char name[];
} entry_t;

enum { PATH_BYTES = 64 }; /* for /proc/NUMBER/fd/NUMBER */

/* The first descriptor that `visit` finds for a numeric entry of the folder; -1: none. Unlike readdir, it allocates
 * nothing. */
static int find_among(const char *folder, int (*visit)(const char *path)) {
  _Alignas(entry_t) char entries[2048];
  char path[PATH_BYTES], *name = stpcpy(stpcpy(path, folder), "/");
  int found = -1, fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (long n; fd >= 0 && found < 0 && (n = hak_direct(SYS_getdents64, fd, (long)entries, sizeof entries)) > 0;) {
    const entry_t *entry;
    for (long at = 0; at < n && found < 0; at += entry->bytes) {
      entry = (const entry_t *)(const void *)(entries + at);
      if (entry->name[0] >= '0' && entry->name[0] <= '9') {
        stpcpy(name, entry->name); /* at most ten digits */
        found = visit(path);
      }
    }
  }
  if (fd >= 0) {
    close(fd);
  }
  return found;
}

static int open_if_remembered(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0 || status.st_dev != remembered.status.st_dev ||
      status.st_ino != remembered.status.st_ino) {
    return -1;
  }
  int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd >= 0 && (!is_remembered(fd) || fcntl(fd, F_SETFL, O_APPEND) != 0)) { /* writes then wait for a full pipe */
    close(fd);
    fd = -1;
  }
  return fd;
}

static int find_in_process(const char *process) {
  char folder[PATH_BYTES];
  stpcpy(stpcpy(folder, process), "/fd");
  return find_among(folder, open_if_remembered);
}

/* A pipe has no name, but a shell that also writes there has it open. If no such process exists, the search may find
 * the reader of the pipe; it may have seen the end of the pipe by then. */
static int open_by_others(void) {
  return S_ISFIFO(remembered.status.st_mode) ? find_among("/proc", find_in_process) : -1;
}

void hak_os_write_report(const char *text, size_t length) {
  int saved = errno;
  int fd = remembered.known && !is_remembered(STDERR_FILENO) ? remembered.copy : STDERR_FILENO;
  bool reopen = remembered.known && (fd <= 0 || !is_remembered(fd)); /* the number may belong to another file */
  if (reopen) {
    fd = open_remembered();
    fd = fd >= 0 ? fd : open_by_others();
  }
  hak_os_write(fd, text, length);
  if (reopen && fd >= 0) {
    close(fd);
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
