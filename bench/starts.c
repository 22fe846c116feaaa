// starts CPU ROUNDS LIBRARY,... -- PROGRAM ARGUMENTS...: runs the program once a round with each library preloaded
// (`-`: none), all at once on processor CPU, and prints a line a run: library number, page faults, peak KiB, processor
// seconds. All of it includes the program's children. With CPU -1 the runs follow one another. The program's output
// goes to standard error.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_LIBRARIES = 32, PAD_BYTES = 4096, MICROSECONDS = 1000000 };

static void fail(const char *what) {
  perror(what);
  exit(2);
}

// The environment has a random length, so that no side always has the same place of its stack. Without a processor to
// share, vfork keeps the page faults of this program out of the count.
static pid_t start(const char *library, int processor, char **program) {
  char pad[PAD_BYTES];
  memset(pad, 'x', sizeof pad);
  pad[rand() % (PAD_BYTES - 1)] = '\0';
  setenv("PAD", pad, 1);
  if (strcmp(library, "-") != 0)
    setenv("LD_PRELOAD", library, 1);
  else
    unsetenv("LD_PRELOAD");
  pid_t child = processor < 0 ? vfork() : fork();
  if (child < 0)
    fail("starts: fork");
  if (child > 0)
    return child;
  dup2(STDERR_FILENO, STDOUT_FILENO);
  if (processor >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)processor, &set);
    sched_setaffinity(0, sizeof set, &set);
    raise(SIGSTOP); // until all sides are ready
  }
  execvp(program[0], program);
  _exit(127);
}

static void report(int number, pid_t child) {
  struct rusage used;
  int status;
  if (wait4(child, &status, 0, &used) != child || status != 0) {
    fprintf(stderr, "starts: side %d ended with status %#x\n", number, (unsigned)status);
    exit(1);
  }
  double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / MICROSECONDS;
  printf("%d %ld %ld %.6f\n", number, used.ru_minflt + used.ru_majflt, used.ru_maxrss, seconds);
}

int main(int argc, char **argv) {
  if (argc < 6 || strcmp(argv[4], "--") != 0) {
    fprintf(stderr, "usage: starts CPU ROUNDS LIBRARY,... -- PROGRAM ARGUMENTS...\n");
    return 2;
  }
  int processor = atoi(argv[1]), count = 0;
  char *libraries[MAX_LIBRARIES], *rest = argv[3], *library;
  while (count < MAX_LIBRARIES && (library = strsep(&rest, ",")))
    libraries[count++] = library;
  for (int round = atoi(argv[2]); round > 0; round--) {
    pid_t children[MAX_LIBRARIES];
    for (int i = 0; i < count; i++) {
      int number = (i + round) % count, status;
      children[number] = start(libraries[number], processor, argv + 5);
      if (processor < 0)
        report(number, children[number]);
      else if (waitpid(children[number], &status, WUNTRACED) < 0 || !WIFSTOPPED(status))
        fail("starts: stop");
    }
    for (int i = 0; processor >= 0 && i < count; i++)
      kill(children[i], SIGCONT);
    for (int i = 0; processor >= 0 && i < count; i++)
      report(i, children[i]);
    fflush(stdout);
  }
}
