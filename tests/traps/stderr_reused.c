/* Statistics at exit go to standard error, or nowhere. A program that closed its descriptors and then opened files must
 * not find the statistics in these files. The library leaves no descriptor open.
 *
 * The program runs itself with statistics on, in several ways (its argument), each with a data file. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap.h"

enum { FIRST_OWN = 3, FDS = 300, TEXT_BYTES = 4096 };

static void open_everywhere(const char *data) {
  int file;
  do {
    file = open(data, O_WRONLY | O_APPEND);
    CHECK(file >= 0);
  } while (file < FDS);
}

/* One of the program's uses of its descriptors; ends through exit(), where the statistics are written. */
static int act(const char *way, const char *data) {
  hak_free(hide_pointer(hak_malloc(100)));
  if (strcmp(way, "nothing") == 0) {
    return 0;
  }
  if (strcmp(way, "count") == 0) {
    for (int fd = FIRST_OWN; fd < FDS; fd++) {
      CHECK(fcntl(fd, F_GETFD) < 0);
    }
    return 0;
  }
  if (strcmp(way, "closefrom") == 0) { /* closes standard error, too, as a server does */
    closefrom(0);
  } else if (strcmp(way, "loop") == 0) {
    for (int fd = 0; fd < FDS; fd++) {
      close(fd);
    }
  } else {
    CHECK(strcmp(way, "others") == 0);
    closefrom(FIRST_OWN);
  }
  open_everywhere(data);
  return 0;
}

static void start(const char *way, const char *data, int error) {
  char program[4096];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  CHECK(length > 0);
  program[length] = '\0';
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    dup2(error, STDERR_FILENO);
    closefrom(FIRST_OWN);
    setenv("HAKMEM_STATS", "1", 1);
    setenv("HAKMEM_SS_OS_STATS", "1", 1);
    execl(program, program, way, data, (char *)NULL);
    _exit(127);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

static off_t bytes_of(int file) {
  struct stat about;
  CHECK(fstat(file, &about) == 0);
  return about.st_size;
}

static bool has_statistics(int file) {
  static char text[TEXT_BYTES];
  ssize_t length = pread(file, text, sizeof text - 1, 0);
  CHECK(length >= 0);
  text[length] = '\0';
  return strstr(text, "hakmem statistics") != NULL;
}

int main(int count, char **arguments) {
  static const char *const ways[] = {"others", "closefrom", "loop", "count", "nothing"};
  if (count == 3) {
    return act(arguments[1], arguments[2]);
  }
  trap_watchdog(60);
  char data[] = "/tmp/stderr_reused.XXXXXX", errors[] = "/tmp/stderr_reused.XXXXXX";
  int data_file = mkstemp(data), error_file = mkstemp(errors);
  CHECK(data_file >= 0 && error_file >= 0);
  unlink(errors);
  int faults = 0;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    CHECK(ftruncate(error_file, 0) == 0 && lseek(error_file, 0, SEEK_SET) == 0);
    start(ways[i], data, error_file);
    if (bytes_of(data_file) != 0) {
      fprintf(stderr, "%s: %ld bytes in the data file\n", ways[i], (long)bytes_of(data_file));
      CHECK(ftruncate(data_file, 0) == 0);
      faults++;
    }
  }
  unlink(data);
  CHECK(faults == 0);
  CHECK(has_statistics(error_file)); /* of the last run, which did nothing */
  return 0;
}
