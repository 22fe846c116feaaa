#include "launcher.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = PATH_MAX + 128, EVENTS_BYTES = 1 << 14, MOST_KNOWN = 256 };

static const double FIRST_LOOK_S = 0.005, GROWTH = 1.25, BUSY = 0.1; /* BUSY: part of the time since the start */

/* A process between one exec and the next. before_s, used_s: processor time at the last look before the exec, or while
 * the program was loading, and at the latest look. */
typedef struct known {
  int pid;
  ino_t program;
  bool served;
  double before_s, used_s;
  char path[PATH_MAX];
} known_t;

/* opened: how often the library was opened, counted from the worker's start if there is a worker; -1: the kernel does
 * not report it. */
struct served {
  int events, library, worker;
  int64_t opened;
  bool begun;
  double next_s;
  char path[PATH_MAX];
  ino_t inode; /* identifies the library in another root folder, too */
  size_t count;
  family_t family;
  known_t known[MOST_KNOWN];
};

served_t *served_open(const char *library, const char *worker) {
  served_t *served = *library ? calloc(1, sizeof *served) : NULL;
  if (!served) {
    return NULL;
  }
  struct stat status;
  snprintf(served->path, sizeof served->path, "%s", library);
  served->inode = stat(library, &status) == 0 ? status.st_ino : 0;
  served->next_s = FIRST_LOOK_S;
  served->events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  /* The kernel merges equal successive events. Reads of the file, which IN_ACCESS reports, keep two openings apart. */
  served->library = inotify_add_watch(served->events, library, IN_OPEN | IN_ACCESS);
  served->worker = *worker ? inotify_add_watch(served->events, worker, IN_OPEN) : -1;
  served->opened = served->library < 0 ? -1 : 0;
  return served;
}

static void hear(served_t *served, const struct inotify_event *event) {
  if (event->mask & IN_Q_OVERFLOW) {
    served->opened = -1;
  } else if (event->mask & IN_OPEN && event->wd == served->worker && !served->begun) {
    served->begun = true;
    served->opened = served->opened < 0 ? -1 : 0;
  } else if (event->mask & IN_OPEN && event->wd == served->library) {
    served->opened += served->opened >= 0;
  }
}

static void hear_all(served_t *served) {
  _Alignas(struct inotify_event) char events[EVENTS_BYTES];
  ssize_t bytes;
  while (served->events >= 0 && (bytes = read(served->events, events, sizeof events)) > 0) {
    for (char *at = events; at < events + bytes;) {
      const struct inotify_event *event = (const void *)at;
      hear(served, event);
      at += sizeof *event + event->len;
    }
  }
}

static double used_s(int pid) {
  struct timespec t;
  clockid_t clock = (clockid_t)((~(unsigned)pid << 3) | 2); /* the kernel's name for the clock of a process */
  return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec + (double)t.tv_nsec * 1e-9 : 0;
}

/* loading: the dynamic linker has not mapped the C library yet. It maps preloaded libraries first, so that their
 * absence is certain only then. */
static bool maps(int pid, const served_t *served, bool *loading) {
  char path[PATH_BYTES], line[LINE_BYTES];
  const char *wanted = strrchr(served->path, '/');
  bool found = false, linked = false, libc = false;
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE *file = fopen(path, "re");
  /* A process whose maps cannot be read counts as served. */
  bool readable = file && fgets(line, sizeof line, file);
  while (readable && !found && fgets(line, sizeof line, file)) {
    const char *name = strchr(line, '/');
    line[strcspn(line, "\n")] = '\0';
    linked |= name && strstr(name, "/ld-");
    libc |= name && (strstr(name, "/libc.so.") || strstr(name, "/ld-musl-"));
    uintmax_t inode = 0;
    found = name && (strcmp(name, served->path) == 0 ||
                     (sscanf(line, "%*s %*s %*s %*s %ju", &inode) == 1 && inode == served->inode && wanted &&
                      strcmp(strrchr(name, '/'), wanted) == 0));
  }
  if (file) {
    fclose(file);
  }
  *loading = linked && !libc;
  return found || !readable;
}

/* NULL: the table is full. */
static known_t *known_of(served_t *served, int pid) {
  for (size_t i = 0; i < served->count; i++) {
    if (served->known[i].pid == pid) {
      return &served->known[i];
    }
  }
  if (served->count == MOST_KNOWN) {
    return NULL;
  }
  served->known[served->count].pid = pid;
  return &served->known[served->count++];
}

static void look_at(served_t *served, int pid, double age_s) {
  char path[PATH_BYTES];
  struct stat program;
  double used = used_s(pid);
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  known_t *known = used >= BUSY * age_s && stat(path, &program) == 0 ? known_of(served, pid) : NULL;
  if (!known) {
    return;
  }
  if (known->program != program.st_ino) {
    ssize_t length = readlink(path, known->path, sizeof known->path - 1);
    known->path[length > 0 ? length : 0] = '\0';
    known->before_s = known->used_s;
    known->program = program.st_ino;
    known->served = false;
  }
  known->used_s = used;
  bool loading = false;
  known->served = known->served || maps(pid, served, &loading);
  known->before_s = loading ? used : known->before_s;
}

void served_watch(served_t *served, double age_s) {
  if (!served || age_s < served->next_s) {
    return;
  }
  served->next_s = age_s * GROWTH;
  hear_all(served);
  family_find(&served->family);
  for (int64_t i = 0; i < served->family.count; i++) {
    look_at(served, served->family.pids[i], age_s);
  }
}

void served_close(served_t *served) {
  if (served) {
    close(served->events);
    free(served);
  }
}

void served_print(served_t *served) {
  const known_t *most = NULL;
  double whole_s = 0, most_s = 0;
  if (served) {
    hear_all(served);
  }
  for (size_t i = 0; served && i < served->count; i++) {
    const known_t *known = &served->known[i];
    double without_s = known->served ? 0 : known->used_s - known->before_s;
    whole_s += without_s;
    most = without_s > most_s ? known : most;
    most_s = without_s > most_s ? without_s : most_s;
  }
  printf(" opened=%" PRId64 " unserved_s=%.6f unserved=", served ? served->opened : -1, whole_s);
  for (const char *at = most ? most->path : ""; *at; at++) { /* the path must be one word of the line */
    putchar(*at > ' ' ? *at : '?');
  }
}
