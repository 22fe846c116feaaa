/* How close the process is to its memory limit, or to its control group's. profile.c calls it. */
#include "headroom.h"

#include "file.h"
#include "pages/pages.h"

#include <string.h>

enum { PATH_BYTES = 512, FILE_BYTES = 4096, PAUSE_MS = 100, LEAST_STEP = 1 << 20, SHARE_LEFT = 10 };

enum { NO_LIMIT_SHIFT = 60 }; /* without a limit, version 1 shows a number of at least this size */

/* The two versions of control groups: the controller whose row names the group, the folder below the root, and the
 * names of the files. */
typedef struct version {
  const char *controller, *mount, *limit, *use, *active, *inactive;
} version_t;
static const version_t versions[] = {
    {"", "", "/memory.max", "/memory.current", "active_file", "inactive_file"},
    {"memory", "/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_active_file",
     "total_inactive_file"},
};

static struct {
  char group[PATH_BYTES]; /* empty: no group has a limit */
  const version_t *version;
  uint64_t limit;
  _Atomic uint64_t next_ms, next_allocated;
} watched HAK_LARGE_DATA;

/* The number in a file; UINT64_MAX if the file is missing or holds other text. */
static uint64_t parse(const char *text) {
  const char *end = text;
  uint64_t n = hak_text_number(&end, 10);
  return end > text ? n : UINT64_MAX;
}

/* Reads "" if the file cannot be read. */
static void read_file(const char *folder, const char *name, char *text, size_t bytes) {
  char path[PATH_BYTES + 32];
  hak_text_t whole = hak_text_on(path, sizeof path);
  hak_text_put(&whole, "%s%s", folder, name);
  int fd = hak_file_open(path);
  size_t got = fd >= 0 ? hak_file_read(fd, text, bytes - 1) : 0;
  text[got] = '\0';
  if (fd >= 0) {
    hak_file_close(fd);
  }
}

static uint64_t read_number(const char *folder, const char *name) {
  char text[32];
  read_file(folder, name, text, sizeof text);
  return parse(text);
}

/* Find the row "name number" in a text, and return its number. 0: there is no such row. */
static uint64_t row_of(const char *text, const char *name) {
  size_t length = strlen(name);
  while (!hak_match_start(text, name) || text[length] != ' ') {
    text = hak_match_first(text, '\n');
    if (!text) {
      return 0;
    }
    text++;
  }
  return parse(text + length + 1);
}

static void keep_if_less(const version_t *version, const char *folder) {
  uint64_t limit = read_number(folder, version->limit);
  if (limit < watched.limit && limit >> NO_LIMIT_SHIFT == 0) {
    hak_text_t group = hak_text_on(watched.group, sizeof watched.group);
    hak_text_put(&group, "%s", folder);
    watched.limit = limit;
    watched.version = version;
  }
}

/* Whether the controller is in a list like "cpu,memory:/path". The empty name of version 2 is in an empty list. */
static bool is_listed(const char *controller, const char *list) {
  size_t length = strlen(controller);
  for (;;) {
    size_t word = hak_match_until(list, ",:");
    if (word == length && hak_match_start(list, controller)) {
      return true;
    }
    if (list[word] != ',') {
      return false;
    }
    list += word + 1;
  }
}

/* The path in the controller's row "number:controllers:path"; the caller finds its end. NULL: there is no such row. */
static const char *path_of(const char *rows, const char *controller) {
  for (const char *row = rows, *end; row; row = (end = hak_match_first(row, '\n')) ? end + 1 : NULL) {
    const char *list = row + hak_match_of(row, "0123456789");
    if (*list == ':' && is_listed(controller, list + 1)) {
      const char *path = list + 1 + hak_match_until(list + 1, ":\n");
      return *path == ':' ? path + 1 : NULL;
    }
  }
  return NULL;
}

/* Look at the group and its ancestors. In a container, the process's own group may be mounted at the root, whatever its
 * name. */
static void look_at(const version_t *version, const char *root, const char *path) {
  char folder[PATH_BYTES];
  hak_text_t whole = hak_text_on(folder, sizeof folder);
  hak_text_put(&whole, "%s%s", root, version->mount);
  size_t top = whole.length, length = hak_match_until(path, "\n");
  if (top + length >= sizeof folder) {
    return;
  }
  memcpy(folder + top, path, length);
  folder[top + length] = '\0';
  const char *slash;
  for (; strlen(folder) > top && (slash = hak_match_last(folder, '/')); folder[slash - folder] = '\0') {
    keep_if_less(version, folder);
  }
  keep_if_less(version, folder);
}

void hak_headroom_start(const char *root, const char *process) {
  char rows[FILE_BYTES];
  watched.limit = UINT64_MAX;
  watched.group[0] = '\0';
  read_file(process, "/cgroup", rows, sizeof rows);
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    const char *path = path_of(rows, versions[i].controller);
    if (path) {
      look_at(&versions[i], root, path);
    }
  }
}

/* The group's use, without cached files. */
static uint64_t group_use(uint64_t enough) {
  char text[FILE_BYTES] = {0};
  uint64_t used = read_number(watched.group, watched.version->use);
  if (used == UINT64_MAX || used < enough) {
    return used == UINT64_MAX ? 0 : used;
  }
  read_file(watched.group, "/memory.stat", text, sizeof text);
  uint64_t cached = row_of(text, watched.version->active) + row_of(text, watched.version->inactive);
  return used > cached ? used - cached : 0;
}

static bool group_near(size_t percent, uint64_t allocated) {
  uint64_t now_ms = hak_os_now_ms();
  if (watched.group[0] == '\0' || (now_ms < atomic_load_explicit(&watched.next_ms, memory_order_relaxed) &&
                                   allocated < atomic_load_explicit(&watched.next_allocated, memory_order_relaxed))) {
    return false;
  }
  uint64_t enough = watched.limit / 100 * percent, used = group_use(enough);
  uint64_t step = used < enough ? (enough - used) / SHARE_LEFT : 0;
  step = step > LEAST_STEP ? step : LEAST_STEP;
  atomic_store_explicit(&watched.next_allocated, allocated + step, memory_order_relaxed);
  atomic_store_explicit(&watched.next_ms, now_ms + PAUSE_MS, memory_order_relaxed);
  return used >= enough;
}

bool hak_headroom_near(size_t percent, uint64_t allocated) {
  size_t limit = hak_option_slices(HAK_OPTION_MEMORY_LIMIT);
  if (limit > 0 && hak_retain_used_slices() >= limit - limit / 100 * (100 - percent)) {
    return true;
  }
  return group_near(percent, allocated);
}
