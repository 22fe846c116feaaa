/* The limits of the process: a share of what a control group may use, by its files. */
#include "pages/limit.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "pages/purge.h"
#include "setting.h"
#include "system.h"

enum { MIB = 1 << 20 };

static char root[] = "/tmp/hak-limit-XXXXXX";

static void put(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  FILE *file = fopen(path, "w");
  CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void put_mib(const char *name, size_t mib) {
  char text[32];
  snprintf(text, sizeof text, "%zu\n", mib * MIB);
  put(name, text);
}

/* The group of version 2, at the root, of 100 MiB. */
static void begin(size_t used_mib) {
  put("cgroup", "0::/\n");
  put_mib("memory.max", 100);
  put_mib("memory.current", used_mib);
  put("memory.stat", "anon 5\ninactive_file 0\nactive_file 0\n");
  put("memory.events", "low 0\nhigh 0\nmax 0\noom 0\n");
  system_set_clock_ms(100000);
  CHECK(hak_option_set("MEMORY_LIMIT", "auto:80%") == 0);
  hak_limit_look(); /* the real group, if there is one; it is then not looked at again */
  errno = EDOM;
  hak_limit_look_at(root, root, 80);
  CHECK(errno == EDOM);
}

static size_t resident(void) {
  hak_arena_totals_t totals = hak_arena_totals();
  return (totals.used_slices + totals.dirty_slices) << HAK_SLICE_SHIFT;
}

static size_t allowed(void) {
  return hak_limit_bytes() >> 20;
}

static void what_the_group_has_left_may_be_filled(void) {
  begin(0);
  CHECK(allowed() == 80);
  put_mib("memory.current", 30); /* of others */
  hak_limit_look_at(root, root, 80);
  CHECK(hak_limit_bytes() == resident() + (size_t)50 * MIB);
  void *block = hak_malloc(40 * MIB);
  CHECK(block && !hak_malloc(20 * MIB));
  put_mib("memory.current", 95);
  put("memory.stat", "inactive_file 10485760\nactive_file 10485760\n"); /* which the kernel can reclaim */
  hak_limit_look_at(root, root, 80);
  CHECK(hak_limit_bytes() == resident() + (size_t)5 * MIB);
  put_mib("memory.max", 1000);
  hak_limit_look_at(root, root, 80);
  CHECK(hak_limit_bytes() == resident() + (size_t)725 * MIB);
  put_mib("memory.current", 0);
  put_mib("memory.max", 50);
  hak_limit_look_at(root, root, 80);
  CHECK(allowed() == 40 && !hak_malloc(MIB)); /* the heap holds as much */
  hak_free(block);
}

static void no_group_is_no_limit(void) {
  begin(0);
  put("memory.max", "max\n");
  hak_limit_look_at(root, root, 80);
  CHECK(hak_limit_bytes() == 0);
  void *block = hak_malloc(200 * MIB);
  CHECK(block);
  hak_free(block);
  begin(0);
  system_refuse(SYSTEM_OPEN, 0, SYSTEM_ALL); /* as in a sandbox */
  errno = EDOM;
  hak_limit_look_at(root, root, 80);
  CHECK(hak_limit_bytes() == 0 && errno == EDOM);
  system_allow();
  hak_limit_look_at("/no/such/folder", "/proc/self", 80);
  CHECK(hak_limit_bytes() == 0);
}

/* Where the kernel reclaims and little is left, free memory goes back. */
static void a_group_that_meets_its_limit_purges(void) {
  retain_everything();
  void *block = hak_malloc(20 * MIB);
  memset(block, 1, 20 * MIB);
  hak_free(block);
  begin(10);
  put("memory.events", "low 0\nhigh 0\nmax 7\n");
  hak_limit_look_at(root, root, 80);
  CHECK(hak_arena_totals().dirty_slices > 0); /* much is left */
  put_mib("memory.current", 79);
  hak_limit_look_at(root, root, 80);
  CHECK(hak_arena_totals().dirty_slices > 0); /* nothing was met since */
  put("memory.events", "low 0\nhigh 1\nmax 7\n");
  hak_limit_look_at(root, root, 80);
  CHECK(hak_arena_totals().dirty_slices == 0);
}

static void the_files_are_read_now_and_then(void) {
  begin(0);
  CHECK(allowed() == 80);
  hak_limit_look();
  CHECK(allowed() == 80);
  system_advance_clock_ms(101);
  system_refuse(SYSTEM_OPEN, 0, SYSTEM_ALL);
  hak_limit_look();
  CHECK(hak_limit_bytes() == 0);
  system_allow();
}

static void the_soft_limit_purges_first(void) {
  retain_everything();
  hak_limit_set(40 * MIB, 0);
  CHECK(hak_limit_soft_bytes() == 40 * MIB && hak_limit_bytes() == 0);
  for (int i = 0; i < 10; i++) {
    void *block = hak_malloc((size_t)(20 + i) * MIB); /* beside what is kept of the ones before */
    CHECK(block);
    hak_free(block);
  }
  CHECK(!hak_limit_soft_met && resident() <= 40 * MIB);
  CHECK(!hak_limit_passes_soft(MIB) && hak_limit_passes_soft(41 * MIB));
  hak_limit_set(0, SIZE_MAX);
  CHECK(hak_limit_bytes() == INT64_MAX && !hak_limit_passes_soft(SIZE_MAX / 2));
}

int main(void) {
  char command[sizeof root + 16];
  CHECK(mkdtemp(root));
  child_succeeds(what_the_group_has_left_may_be_filled);
  child_succeeds(no_group_is_no_limit);
  child_succeeds(a_group_that_meets_its_limit_purges);
  child_succeeds(the_files_are_read_now_and_then);
  child_succeeds(the_soft_limit_purges_first);
  snprintf(command, sizeof command, "rm -r %s", root);
  CHECK(system(command) == 0);
  return 0;
}
