/* How near the end of memory is: the option, and a control group as its files tell of it. */
#include "headroom.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "check.h"
#include "child.h"
#include "geometry.h"
#include "hakmem.h"
#include "system.h"

static char root[] = "/tmp/hak-headroom-XXXXXX";

static void put(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  FILE *file = fopen(path, "w");
  CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Whether the process is in the group at the top, as the files below `root` have it. */
static bool is_at_top(void) {
  char line[256];
  bool top = false;
  FILE *file = fopen("/proc/self/cgroup", "r");
  while (file && fgets(line, sizeof line, file)) {
    top |= strcmp(line, "0::/\n") == 0;
  }
  return file && fclose(file) == 0 && top;
}

static void the_option_counts(void) {
  CHECK(!hak_headroom_near(1, 0));
  CHECK(hak_option_set("MEMORY_LIMIT", "64M") == 0);
  CHECK(!hak_headroom_near(90, 0));
  void *block = hak_malloc(40 << 20);
  CHECK(block && hak_headroom_near(50, 0) && !hak_headroom_near(90, 0));
  hak_free(block);
  CHECK(hak_option_set("MEMORY_LIMIT", "0") == 0 && !hak_headroom_near(1, 0));
}

static void a_group_counts_without_its_cached_files(void) {
  if (!is_at_top()) {
    return; /* in a group of its own, this test would write below its name */
  }
  system_set_clock_ms(100000);
  put("memory.max", "1000000000\n");
  put("memory.current", "500000000\n");
  put("memory.stat", "anon 5\ninactive_file 100000000\nactive_file 50000000\n");
  hak_headroom_start(root);
  CHECK(!hak_headroom_near(90, 0));
  put("memory.current", "990000000\n");
  CHECK(!hak_headroom_near(80, 1)); /* it is not looked at again so soon */
  system_advance_clock_ms(101);
  CHECK(!hak_headroom_near(90, 1)); /* 840 of 1000 MB cannot be given up */
  system_advance_clock_ms(101);
  CHECK(hak_headroom_near(80, 1));
}

static void what_was_allocated_is_a_reason_to_look(void) {
  if (!is_at_top()) {
    return;
  }
  system_set_clock_ms(100000);
  put("memory.current", "500000000\n");
  put("memory.stat", "");
  hak_headroom_start(root);
  CHECK(!hak_headroom_near(90, 0));
  put("memory.current", "950000000\n");
  CHECK(!hak_headroom_near(90, 39000000) && hak_headroom_near(90, 41000000)); /* a tenth of the 400 MB that were left */
}

static void no_limit_is_never_near(void) {
  put("memory.max", "max\n");
  put("memory.current", "950000000\n");
  hak_headroom_start(root);
  CHECK(!hak_headroom_near(1, UINT64_MAX));
  hak_headroom_start("/no/such/folder");
  CHECK(!hak_headroom_near(1, UINT64_MAX));
}

static void files_that_cannot_be_read_are_no_limit(void) {
  put("memory.max", "1000\n");
  system_refuse(SYSTEM_OPEN, 0, SYSTEM_ALL);
  hak_headroom_start(root);
  CHECK(!hak_headroom_near(1, UINT64_MAX));
  system_allow();
}

int main(void) {
  char command[sizeof root + 16];
  CHECK(mkdtemp(root));
  child_succeeds(the_option_counts);
  child_succeeds(a_group_counts_without_its_cached_files);
  child_succeeds(what_was_allocated_is_a_reason_to_look);
  child_succeeds(no_limit_is_never_near);
  child_succeeds(files_that_cannot_be_read_are_no_limit);
  snprintf(command, sizeof command, "rm -r %s", root);
  CHECK(system(command) == 0);
  return 0;
}
