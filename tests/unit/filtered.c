/* Once the process may be under a filter, the library uses no call, flag or advice that glibc's malloc does not use,
 * since the filter could kill it for that. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "inspect/images.h"
#include "inspect/modules.h"
#include "pages/limit.h"
#include "system/os.h"

#define NOREPLACE 0x100000 /* MAP_FIXED_NOREPLACE */
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(test, value, skip) BPF_JUMP(BPF_JMP | (test) | BPF_K, value, 0, skip)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILLED(call) UNLESS(BPF_JEQ, SYS_##call, 1), KILL

static size_t page;

/* Sets a filter, if the system has filters. */
static void shut(void) {
  static struct sock_filter rules[] = {
      LOAD(nr),
      KILLED(mincore),
      KILLED(process_vm_readv),
      KILLED(openat),
      KILLED(prctl),
      UNLESS(BPF_JEQ, SYS_mmap, 4),
      LOAD(args[3]),
      UNLESS(BPF_JSET, NOREPLACE, 1),
      KILL,
      ALLOW,
      UNLESS(BPF_JEQ, SYS_madvise, 4),
      LOAD(args[2]),
      UNLESS(BPF_JEQ, MADV_DONTNEED, 1),
      ALLOW,
      KILL,
      ALLOW,
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void a_place_is_mapped_by_a_hint(void) {
  char *place = hak_os_map(NULL, 2 * page);
  CHECK(place != NULL && hak_os_unmap(place, 2 * page));
  hak_os_expect_filter(false);
  shut();
  CHECK(hak_os_map_at(place, page) == HAK_OS_MAPPED);
  place[0] = 1;
  CHECK(hak_os_map_at(place, 2 * page) == HAK_OS_OCCUPIED && place[0] == 1);
}

static void mappings_have_no_names(void) {
  hak_os_name_mappings(true);
  hak_os_expect_filter(false);
  shut();
  CHECK(hak_os_map(NULL, page) != NULL);
}

static void nothing_is_known_to_be_resident(void) {
  unsigned char resident = 1;
  char *pages = hak_os_map(NULL, page);
  CHECK(pages != NULL);
  pages[0] = 1;
  CHECK(hak_os_residency(pages, page, &resident) && resident == 1);
  hak_os_expect_filter(false);
  shut();
  CHECK(!hak_os_residency(pages, page, &resident) && resident == 0);
}

static void pages_are_shut_by_protection(void) {
  char *pages = hak_os_map(NULL, page);
  CHECK(pages != NULL);
  pages[0] = 1;
  CHECK(hak_os_word_at((uintptr_t)pages) == 1);
  hak_os_expect_filter(false);
  shut();
  CHECK(!hak_os_guard(pages, page) && hak_os_close(pages, page) && hak_os_word_at((uintptr_t)pages) == 0);
  CHECK(hak_os_unguard(pages, page) && hak_os_word_at((uintptr_t)pages) == 0); /* mapped anew */
  pages[0] = 1;
}

static void no_file_is_opened(void) {
  enum { MUCH = 1 << 30 };
  hak_limit_watch("/sys/fs/cgroup", "/proc/self");
  CHECK(hak_modules_look());
  hak_os_expect_filter(false);
  shut();
  CHECK(!hak_modules_look() && hak_modules_is_code((uintptr_t)&hak_modules_look));
  hak_images_learn();
  CHECK(!hak_limit_near(100, MUCH) && hak_images_count() == 0);
}

int main(void) {
  page = hak_os_page_bytes();
  child_succeeds(a_place_is_mapped_by_a_hint);
  child_succeeds(mappings_have_no_names);
  child_succeeds(nothing_is_known_to_be_resident);
  child_succeeds(pages_are_shut_by_protection);
  child_succeeds(no_file_is_opened);
  return 0;
}
