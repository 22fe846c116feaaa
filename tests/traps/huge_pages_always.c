/* Where the system makes huge pages wherever it can (transparent_hugepage/enabled is "always"), a program with a few
 * blocks stays small.
 *
 * In a mount namespace of its own, the program mounts a file with that setting over the system's. The first blocks must
 * not lie where the kernel could put a huge page, that is in a mapping that holds 2 MiB around them and is not
 * excluded. */
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "trap.h"

enum { RSS_MAX_KIB = 1024, BLOCKS = 40 };
#define HUGE_BYTES ((uintptr_t)2 << 20)
#define SETTING "/sys/kernel/mm/transparent_hugepage/enabled"

static bool setting_is_always(void) {
  char text[64] = "";
  int file = open(SETTING, O_RDONLY | O_CLOEXEC);
  ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
  close(file);
  return length > 0 && strstr(text, "[always]") != NULL;
}

static void pretend_always(void) {
  static const char text[] = "[always] madvise never\n";
  char path[] = "/tmp/huge_pages_always.XXXXXX";
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0) {
    trap_skip("no mount namespaces");
  }
  int file = mkstemp(path);
  CHECK(file >= 0 && write(file, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
  close(file);
  bool done = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount(path, SETTING, NULL, MS_BIND, NULL) == 0;
  unlink(path);
  if (!done || !setting_is_always()) {
    trap_skip("the setting cannot be covered");
  }
}

typedef struct {
  uintptr_t block;
  bool inside, could_be_huge;
} Search;

static void look_at_line(const char *line, void *argument) {
  Search *search = argument;
  char *dash;
  uintptr_t begin = strtoul(line, &dash, 16);
  if (*dash == '-') {
    char *space;
    uintptr_t end = strtoul(dash + 1, &space, 16), huge = search->block & ~(HUGE_BYTES - 1);
    search->inside = *space == ' ' && begin <= huge && huge + HUGE_BYTES <= end;
  } else if (strncmp(line, "VmFlags:", 8) == 0 && search->inside) {
    search->could_be_huge = strstr(line, " nh") == NULL;
  }
}

/* The library may have read the old setting already. A new program image finds the new setting from its start. */
static _Noreturn void start_again(void) {
  char program[4096];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  CHECK(length > 0);
  program[length] = '\0';
  execl(program, program, "again", (char *)NULL);
  perror(program);
  _exit(1);
}

int main(int count, char **arguments) {
  (void)arguments;
  static const size_t sizes[] = {16, 100, 1000, 3000};
  trap_watchdog(60);
  if (count == 1 && !setting_is_always()) {
    pretend_always();
    start_again();
  }
  size_t before = trap_rss_kib();
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t bytes = sizes[i % (sizeof sizes / sizeof *sizes)];
    char *block = hak_malloc(bytes);
    CHECK(block != NULL);
    memset(block, 1, bytes);
    Search search = {.block = (uintptr_t)block};
    trap_each_line("/proc/self/smaps", look_at_line, &search);
    CHECK(!search.could_be_huge);
  }
  CHECK(trap_rss_kib() <= before + RSS_MAX_KIB);
  return 0;
}
