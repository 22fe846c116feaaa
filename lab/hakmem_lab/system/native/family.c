/* The processes of the program that runs. */
#include "launcher.h"

#include <dirent.h>
#include <unistd.h>

/* One whose parent ends meanwhile is found again among our own children. */
static bool is_new(family_t *family, int pid) {
  for (int64_t i = 0; i < family->count; i++) {
    if (family->pids[i] == pid) {
      return false;
    }
  }
  if (family->count == MOST_PROCESSES) {
    return false;
  }
  family->pids[family->count++] = pid;
  return true;
}

static void add_descendants(family_t *family, int pid);

static void add_children(family_t *family, int pid, const char *thread) {
  char path[PATH_BYTES];
  int child;
  snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", pid, thread);
  FILE *children = fopen(path, "re");
  while (children && fscanf(children, "%d", &child) == 1) {
    if (is_new(family, child)) {
      add_descendants(family, child);
    }
  }
  if (children) {
    fclose(children);
  }
}

/* Every thread has a list of its own of the processes that it started. */
static void add_descendants(family_t *family, int pid) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *threads = opendir(path);
  for (struct dirent *entry; threads && (entry = readdir(threads));) {
    if (entry->d_name[0] != '.') {
      add_children(family, pid, entry->d_name);
    }
  }
  if (threads) {
    closedir(threads);
  }
}

void family_find(family_t *family) {
  family->count = 0;
  add_descendants(family, (int)getpid());
}
