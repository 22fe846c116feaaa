#include "headroom.h"

#include "arena.h"
#include "file.h"
#include "options.h"
#include "os.h"
#include "text.h"

#include <string.h>

enum { PATH_BYTES = 512, FILE_BYTES = 4096, PAUSE_MS = 100, LEAST_STEP = 1 << 20, SHARE_LEFT = 10 };

static struct {
  char group[PATH_BYTES]; /* empty: no group has a limit */
  uint64_t limit;
  _Atomic uint64_t next_ms, next_allocated;
} watched;

/* The number that a file of one number holds; UINT64_MAX where it holds another text, or is not there. */
static uint64_t parse(const char *text) {
  uint64_t n = 0;
  const char *digit = text;
  for (; *digit >= '0' && *digit <= '9'; digit++) {
    n = n * 10 + (uint64_t)(*digit - '0');
  }
  return digit > text ? n : UINT64_MAX;
}

/* "" where it cannot be read. */
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

/* The row "name number" of a text. 0: it is not there. */
static uint64_t row_of(const char *text, const char *name) {
  size_t length = strlen(name);
  while (strncmp(text, name, length) != 0 || text[length] != ' ') {
    text = strchr(text, '\n');
    if (!text) {
      return 0;
    }
    text++;
  }
  return parse(text + length + 1);
}

static void keep_if_less(const char *folder) {
  uint64_t limit = read_number(folder, "/memory.max");
  if (limit < watched.limit) {
    hak_text_t group = hak_text_on(watched.group, sizeof watched.group);
    hak_text_put(&group, "%s", folder);
    watched.limit = limit;
  }
}

void hak_headroom_start(const char *root) {
  char text[FILE_BYTES], folder[PATH_BYTES];
  watched.limit = UINT64_MAX;
  watched.group[0] = '\0';
  read_file("/proc/self", "/cgroup", text, sizeof text);
  char *path = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
  if (!path) {
    return;
  }
  path = strchr(path, '/');
  path = path ? path : text + strlen(text);
  path[strcspn(path, "\n")] = '\0';
  hak_text_t whole = hak_text_on(folder, sizeof folder);
  hak_text_put(&whole, "%s%s", root, path);
  if (whole.length >= sizeof folder) {
    return;
  }
  size_t root_length = strlen(root);
  for (char *slash; strlen(folder) > root_length && (slash = strrchr(folder, '/')); *slash = '\0') {
    keep_if_less(folder);
  }
  keep_if_less(root);
}

/* In use by the group, without cached files. */
static uint64_t group_use(uint64_t enough) {
  char text[FILE_BYTES] = {0};
  uint64_t used = read_number(watched.group, "/memory.current");
  if (used == UINT64_MAX || used < enough) {
    return used == UINT64_MAX ? 0 : used;
  }
  read_file(watched.group, "/memory.stat", text, sizeof text);
  uint64_t cached = row_of(text, "active_file") + row_of(text, "inactive_file");
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
  if (limit > 0 && hak_arena_used_slices() >= limit - limit / 100 * (100 - percent)) {
    return true;
  }
  return group_near(percent, allocated);
}
