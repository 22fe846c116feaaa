// Children of recorded processes that are not recorded: linked statically, with privileges of their own, or without the
// recorder in LD_PRELOAD. They are found by reading /proc now and then, so a short-lived one may be missed.
#include "collect.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KNOWN_MOST = 1024, LOOKS = 3, PATH_BYTES = 256, PATHS_MOST = 64, THREADS_A_LOOK = 64 };

typedef struct {
  pid_t pid;
  unsigned looks; // number of looks that found it unrecorded; LOOKS: it is counted
} stranger_t;

static stranger_t known[KNOWN_MOST];
static size_t next_known;
static struct {
  char path[PATH_BYTES];
  unsigned count, by_exec; // by_exec: those of count that were recorded until they became this program
} programs[PATHS_MOST];

static process_t *process_of(process_t *first, pid_t pid) {
  for (; first != NULL; first = first->next)
    if (first->pid == pid && first->died_ns == 0)
      return first;
  return NULL;
}

static stranger_t *stranger_of(pid_t pid) {
  for (size_t i = 0; i < KNOWN_MOST; i++)
    if (known[i].pid == pid)
      return &known[i];
  stranger_t *made = &known[next_known++ % KNOWN_MOST];
  *made = (stranger_t){.pid = pid};
  return made;
}

static void count_program(const char *path, bool by_exec) {
  for (size_t i = 0; i < PATHS_MOST; i++) {
    if (programs[i].count == 0)
      snprintf(programs[i].path, sizeof programs[i].path, "%s", path);
    if (strcmp(programs[i].path, path) == 0) {
      programs[i].count++;
      programs[i].by_exec += by_exec;
      return;
    }
  }
}

// The file of the process's program; false: it cannot be read.
static bool program_of(pid_t pid, char *path, size_t bytes) {
  char link[64];
  snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
  ssize_t length = readlink(link, path, bytes - 1);
  path[length > 0 ? length : 0] = '\0';
  return length > 0;
}

void strangers_add(pid_t pid) {
  char path[PATH_BYTES];
  count_program(program_of(pid, path, sizeof path) ? path : "a process", false);
}

// Whether this is the file of the recorded program, even if it has been deleted since.
static bool is_file_of(const char *path, const process_t *recorded) {
  size_t length = strlen(recorded->executable);
  bool begins = strncmp(path, recorded->executable, length) == 0;
  return length == 0 || (begins && (path[length] == '\0' || strcmp(path + length, " (deleted)") == 0));
}

// Checks one process. parent: its parent, if recorded. A child that still runs the parent's program is no stranger: it
// may not have allocated yet.
static void look_at(process_t *first, const process_t *parent, pid_t pid, bool attached) {
  char path[PATH_BYTES];
  if (!program_of(pid, path, sizeof path))
    return;
  process_t *recorded = process_of(first, pid); // it, or its former program, is recorded
  if (recorded != NULL && is_file_of(path, recorded) && sample_is_same(recorded))
    return;
  stranger_t *stranger = stranger_of(pid);
  if (stranger->looks >= LOOKS || (parent != NULL && strcmp(path, parent->executable) == 0))
    return;
  if (++stranger->looks < LOOKS)
    return;
  count_program(path, recorded != NULL);
  if (attached && recorded != NULL)
    recorded->replaced = true;
}

static void look_at_children(process_t *first, const process_t *parent, bool attached) {
  char path[300], text[4096];
  snprintf(path, sizeof path, "/proc/%d/task", (int)parent->pid);
  DIR *tasks = opendir(path);
  if (tasks == NULL)
    return;
  const struct dirent *entry;
  for (int looked = 0; looked < THREADS_A_LOOK && (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.')
      continue;
    looked++;
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)parent->pid, entry->d_name);
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL)
      fclose(file);
    text[got] = '\0';
    char *at = text;
    for (long pid = strtol(at, &at, 10); pid > 0; pid = strtol(at, &at, 10))
      look_at(first, parent, (pid_t)pid, attached);
  }
  closedir(tasks);
}

void strangers_look(process_t *first, pid_t root, bool attached) {
  if (root > 0)
    look_at(first, NULL, root, attached);
  for (const process_t *process = first; process != NULL; process = process->next)
    if (process->died_ns == 0) {
      look_at(first, NULL, process->pid, attached);
      look_at_children(first, process, attached);
    }
}

void strangers_write(FILE *out) {
  putc('[', out);
  for (size_t i = 0; i < PATHS_MOST && programs[i].count != 0; i++) {
    fprintf(out, "%s{\"processes\": %u, \"by_exec\": %u, \"executable\": ", i ? ", " : "", programs[i].count,
            programs[i].by_exec);
    json_string(out, programs[i].path, strlen(programs[i].path));
    putc('}', out);
  }
  putc(']', out);
}
