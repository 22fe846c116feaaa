/* A program that behaves as MODE says: fake MODE [ARGUMENT]. FAKE_MODE and FAKE_ARGUMENT, if
 * set, replace the arguments. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double used_s(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pause_ms(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&t, NULL);
}

static void burn(double ms) {
  while (used_s(CLOCK_PROCESS_CPUTIME_ID) * 1000 < ms) {
  }
}

/* Touches so many MiB. */
static void fill(size_t mib) {
  volatile char *block = malloc(mib << 20);
  for (size_t i = 0; block && i < mib << 20; i += 4096) {
    block[i] = 1;
  }
}

/* Starts descendants that outlive this process, each in its own session. Each is `sleep SECONDS`; tests find it by this
 * unique number. */
static void orphans(int count, const char *seconds) {
  for (int i = 0; i < count; i++) {
    if (fork() == 0) {
      setsid();
      if (fork() == 0) {
        execl("/bin/sleep", "sleep", seconds, (char *)NULL);
      }
      _exit(0);
    }
    wait(NULL);
  }
}

/* Starts children that each hold `mib` MiB, all at the same time for 0.3 s. */
static void family(int count, size_t mib) {
  int ready[2];
  char bytes[64];
  if (pipe(ready) < 0) {
    _exit(9);
  }
  for (int i = 0; i < count; i++) {
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      fill(mib);
      if (write(ready[1], "", 1) == 1) {
        pause();
      }
      _exit(0);
    }
  }
  for (int i = 0; i < count && read(ready[0], bytes, 1) == 1; i++) {
  }
  pause_ms(300);
}

static void print_environment(void) {
  for (char **entry = environ; *entry; entry++) {
    printf("%s%c", *entry, 0);
  }
}

static void print_processors(void) {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  for (int i = 0; i < CPU_SETSIZE; i++) {
    if (CPU_ISSET(i, &set)) {
      printf("%d ", i);
    }
  }
}

static void print_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder)) {
      printf("%s ", entry->d_name);
    }
  }
  closedir(folder);
}

static void print_dispositions(void) {
  for (int number = 1; number < SIGRTMIN; number++) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL) {
      printf("%d ", number);
    }
  }
}

static void write_bytes(size_t bytes) {
  static char chunk[1 << 16];
  memset(chunk, 'x', sizeof chunk);
  for (size_t left = bytes; left > 0;) {
    size_t now = left < sizeof chunk ? left : sizeof chunk;
    ssize_t n = write(1, chunk, now);
    if (n <= 0) {
      _exit(9);
    }
    left -= (size_t)n;
  }
}

/* Chooses all processors for itself. */
static void move(void) {
  cpu_set_t set;
  memset(&set, 0xff, sizeof set);
  sched_setaffinity(0, sizeof set, &set);
}

static int show(const char *mode, int argc, char **argv) {
  if (!strcmp(mode, "env")) {
    print_environment();
  } else if (!strcmp(mode, "processors")) {
    print_processors();
  } else if (!strcmp(mode, "descriptors")) {
    print_descriptors();
  } else if (!strcmp(mode, "dispositions")) {
    print_dispositions();
  } else if (!strcmp(mode, "arguments")) {
    for (int i = 0; i < argc; i++) {
      printf("%s%c", argv[i], 0);
    }
  } else if (!strcmp(mode, "folder")) {
    printf("%s", getcwd(NULL, 0));
  } else if (!strcmp(mode, "input")) {
    printf("%d", getchar());
  } else {
    return 64;
  }
  return 0;
}

static int act(const char *mode, const char *argument, int argc, char **argv) {
  if (!strcmp(mode, "exit")) {
    return atoi(argument);
  } else if (!strcmp(mode, "signal")) {
    raise(atoi(argument));
  } else if (!strcmp(mode, "abort")) {
    abort();
  } else if (!strcmp(mode, "crash")) {
    *(volatile int *)(uintptr_t)atoi(argument) = 1;
  } else if (!strcmp(mode, "sleep")) {
    pause_ms(atol(argument));
  } else if (!strcmp(mode, "stubborn")) {
    signal(SIGTERM, SIG_IGN);
    pause_ms(atol(argument));
  } else if (!strcmp(mode, "burn")) {
    burn(atof(argument));
  } else if (!strcmp(mode, "move")) {
    move();
    burn(atof(argument));
  } else if (!strcmp(mode, "fill")) {
    fill((size_t)atol(argument));
    pause_ms(120);
  } else if (!strcmp(mode, "output")) {
    write_bytes((size_t)atol(argument));
  } else if (!strcmp(mode, "print")) {
    fputs(argument, stdout);
  } else if (!strcmp(mode, "orphans")) {
    orphans(atoi(argument), argv[3]);
  } else if (!strcmp(mode, "orphans-hang")) {
    orphans(atoi(argument), argv[3]);
    pause_ms(60000);
  } else if (!strcmp(mode, "family")) {
    family(atoi(argument), (size_t)atol(argv[3]));
  } else if (!strcmp(mode, "child-burns")) {
    if (fork() == 0) {
      burn(atof(argument));
      _exit(0);
    }
    wait(NULL);
  } else {
    return show(mode, argc, argv);
  }
  return 0;
}

int main(int argc, char **argv) {
  const char *mode = getenv("FAKE_MODE");
  if (mode) {
    return act(mode, getenv("FAKE_ARGUMENT"), argc, argv);
  }
  return argc < 2 ? 64 : act(argv[1], argc > 2 ? argv[2] : "", argc, argv);
}
