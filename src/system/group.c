/* The control group with the lowest limit of memory. */
#include "group.h"

#include "direct.h"
#include "match.h"
#include "text.h"

#include <string.h>

enum { FILE_BYTES = 4096 };
enum { NO_LIMIT_SHIFT = 60 }; /* without a limit, version 1 shows a number of at least this size */

/* The two versions of control groups: the controller whose row names the group, the folder below the root, and the
 * names of the files. `met` has a number, or in version 2 rows, that grow when a limit is met. */
typedef struct hak_group_version {
  const char *controller, *mount, *limit, *use, *met, *active, *inactive;
} version_t;
static const version_t versions[] = {
    {"", "", "/memory.max", "/memory.current", "/memory.events", "active_file", "inactive_file"},
    {"memory", "/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "/memory.failcnt", "total_active_file",
     "total_inactive_file"},
};

/* The number in a file; UINT64_MAX if the file is missing or holds other text. */
static uint64_t parse(const char *text) {
  const char *end = text;
  uint64_t n = hak_text_number(&end, 10);
  return end > text ? n : UINT64_MAX;
}

/* Reads "" if the file cannot be read. */
static void read_file(const char *folder, const char *name, char *text, size_t bytes) {
  char path[HAK_GROUP_PATH + 32];
  hak_text_t whole = hak_text_on(path, sizeof path);
  hak_text_put(&whole, "%s%s", folder, name);
  hak_direct_read(path, text, bytes);
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

static void keep_if_less(hak_group_t *group, const version_t *version, const char *folder) {
  uint64_t limit = read_number(folder, version->limit);
  if (limit < group->limit && limit >> NO_LIMIT_SHIFT == 0) {
    hak_text_t text = hak_text_on(group->folder, sizeof group->folder);
    hak_text_put(&text, "%s", folder);
    group->limit = limit;
    group->version = version;
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
static void look_at(hak_group_t *group, const version_t *version, const char *root, const char *path) {
  char folder[HAK_GROUP_PATH];
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
    keep_if_less(group, version, folder);
  }
  keep_if_less(group, version, folder);
}

bool hak_group_find(hak_group_t *group, const char *root, const char *process) {
  char rows[FILE_BYTES];
  group->limit = UINT64_MAX;
  group->folder[0] = '\0';
  read_file(process, "/cgroup", rows, sizeof rows);
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    const char *path = path_of(rows, versions[i].controller);
    if (path) {
      look_at(group, &versions[i], root, path);
    }
  }
  return group->folder[0] != '\0';
}

uint64_t hak_group_use(const hak_group_t *group, uint64_t enough) {
  char text[FILE_BYTES];
  uint64_t used = read_number(group->folder, group->version->use);
  if (used == UINT64_MAX || used < enough) {
    return used == UINT64_MAX ? 0 : used;
  }
  read_file(group->folder, "/memory.stat", text, sizeof text);
  uint64_t cached = row_of(text, group->version->active) + row_of(text, group->version->inactive);
  return used > cached ? used - cached : 0;
}

uint64_t hak_group_met(const hak_group_t *group) {
  char text[256];
  read_file(group->folder, group->version->met, text, sizeof text);
  uint64_t number = parse(text);
  return number < UINT64_MAX ? number : row_of(text, "high") + row_of(text, "max");
}
