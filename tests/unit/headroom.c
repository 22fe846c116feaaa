/* How close the process is to its memory limits: the option's, and that of a control group, by its files. */
#include "pages/limit.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/geometry.h"
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "pages/arena.h"
#include "system.h"

static char root[] = "/tmp/hak-headroom-XXXXXX";

static void put(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  FILE *file = fopen(path, "w");
  CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void make(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  CHECK(mkdir(path, 0700) == 0);
}

static void the_option_counts(void) {
  CHECK(!hak_limit_near(1, 0));
  CHECK(hak_option_set("MEMORY_LIMIT", "64M") == 0);
  CHECK(!hak_limit_near(90, 0));
  void *block = hak_malloc(40 << 20);
  CHECK(block && hak_limit_near(50, 0) && !hak_limit_near(90, 0));
  hak_free(block);
  CHECK(hak_option_set("MEMORY_LIMIT", "0") == 0 && !hak_limit_near(1, 0));
}

static void a_group_counts_without_its_cached_files(void) {
  system_set_clock_ms(100000);
  put("cgroup", "0::/\n");
  put("memory.max", "1000000000\n");
  put("memory.current", "500000000\n");
  put("memory.stat", "anon 5\ninactive_file 100000000\nactive_file 50000000\n");
  hak_limit_watch(root, root);
  CHECK(!hak_limit_near(90, 0));
  put("memory.current", "990000000\n");
  CHECK(!hak_limit_near(80, 1)); /* the files are not read again so soon */
  system_advance_clock_ms(101);
  CHECK(!hak_limit_near(90, 1)); /* 840 of 1000 MB cannot be reclaimed */
  system_advance_clock_ms(101);
  CHECK(hak_limit_near(80, 1));
}

static void what_was_allocated_is_a_reason_to_look(void) {
  system_set_clock_ms(100000);
  put("memory.current", "500000000\n");
  put("memory.stat", "");
  hak_limit_watch(root, root);
  CHECK(!hak_limit_near(90, 0));
  put("memory.current", "950000000\n");
  CHECK(!hak_limit_near(90, 39000000) && hak_limit_near(90, 41000000)); /* a tenth of the remaining 400 MB */
}

static void the_least_limit_of_the_groups_above_counts(void) {
  system_set_clock_ms(100000);
  put("cgroup", "0::/a/b\n");
  make("a");
  make("a/b");
  put("memory.max", "max\n");
  put("a/memory.max", "1000000\n");
  put("a/memory.current", "990000\n");
  put("a/b/memory.max", "2000000\n");
  put("a/b/memory.current", "5\n");
  hak_limit_watch(root, root);
  CHECK(hak_limit_near(98, 1));
  put("cgroup", "0::/not/mounted/here\n"); /* as in a container, whose own group is at the root */
  put("memory.max", "5000\n");
  put("memory.current", "4990\n");
  put("memory.stat", "");
  system_advance_clock_ms(101);
  hak_limit_watch(root, root);
  CHECK(hak_limit_near(98, 2));
}

static void groups_of_version_1_count_too(void) {
  system_set_clock_ms(100000);
  put("cgroup", "5:cpuacct,cpu:/x\n4:devices,memory:/s\n3:memory_of_others:/x\n0::/\n");
  put("memory.max", "max\n");
  make("memory");
  make("memory/s");
  put("memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
  put("memory/s/memory.limit_in_bytes", "1000000\n");
  put("memory/s/memory.usage_in_bytes", "990000\n");
  put("memory/s/memory.stat", "cache 5\ninactive_file 990000\ntotal_inactive_file 100000\ntotal_active_file 50000\n");
  hak_limit_watch(root, root);
  CHECK(!hak_limit_near(85, 1)); /* 840,000 cannot be reclaimed */
  system_advance_clock_ms(101);
  CHECK(hak_limit_near(84, 2));
  put("memory/s/memory.limit_in_bytes", "9223372036854771712\n");
  system_advance_clock_ms(101);
  hak_limit_watch(root, root);
  CHECK(!hak_limit_near(1, 3));
}

static void rows_that_are_none_are_passed_over(void) {
  put("memory.max", "1000\n");
  put("memory.current", "1000\n");
  const char *const none[] = {"", "0", "0:", "x\n", "0:\n", "1:cpu:/\n", "0:x::/\n", "\n\n"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    put("cgroup", none[i]);
    hak_limit_watch(root, root);
    CHECK(!hak_limit_near(1, UINT64_MAX));
  }
}

static void no_limit_is_never_near(void) {
  put("cgroup", "0::/\n");
  put("memory.max", "max\n");
  put("memory.current", "950000000\n");
  hak_limit_watch(root, root);
  CHECK(!hak_limit_near(1, UINT64_MAX));
  hak_limit_watch("/no/such/folder", "/proc/self");
  CHECK(!hak_limit_near(1, UINT64_MAX));
}

static void files_that_cannot_be_read_are_no_limit(void) {
  put("cgroup", "0::/\n");
  put("memory.max", "1000\n");
  system_refuse(SYSTEM_OPEN, 0, SYSTEM_ALL);
  hak_limit_watch(root, root);
  CHECK(!hak_limit_near(1, UINT64_MAX));
  system_allow();
}

int main(void) {
  char command[sizeof root + 16];
  CHECK(mkdtemp(root));
  child_succeeds(the_option_counts);
  child_succeeds(a_group_counts_without_its_cached_files);
  child_succeeds(what_was_allocated_is_a_reason_to_look);
  child_succeeds(the_least_limit_of_the_groups_above_counts);
  child_succeeds(groups_of_version_1_count_too);
  child_succeeds(rows_that_are_none_are_passed_over);
  child_succeeds(no_limit_is_never_near);
  child_succeeds(files_that_cannot_be_read_are_no_limit);
  snprintf(command, sizeof command, "rm -r %s", root);
  CHECK(system(command) == 0);
  return 0;
}
