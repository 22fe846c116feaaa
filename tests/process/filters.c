/* The library knows when the process sets a filter of system calls: by prctl or by syscall. A child of vfork does not
 * count, nor does a call that sets none. Linked with the archive, for its symbols. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "system/os.h"

static struct sock_filter rules[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static struct sock_fprog program = {1, rules};

static bool by_prctl(void) {
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool by_syscall(void) {
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* The child of a fork without handlers has memory of its own. */
static pid_t raw_fork(void) {
  return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void expects(bool (*set)(void), pid_t (*make)(void)) {
  int status = 1;
  pid_t child = make();
  if (child == 0) {
    _exit(hak_os_is_filtered() || !set() || !hak_os_is_filtered());
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  CHECK(!hak_os_is_filtered());
}

static void ignores_children_of_vfork(bool (*set)(void)) {
  int status = 1;
  pid_t child = vfork();
  if (child == 0) {
    _exit(!set());
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  CHECK(!hak_os_is_filtered());
}

static void ignores_questions(void) {
  errno = 0;
  CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) == -1 && errno == EFAULT);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1);
  CHECK(prctl(PR_GET_SECCOMP) == 0 && !hak_os_is_filtered());
}

/* syscall passes on as many arguments as there can be. */
static void passes_every_argument(void) {
  enum { PAGES = 2 };
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  int file = memfd_create("pages", MFD_CLOEXEC);
  CHECK(file >= 0 && ftruncate(file, (off_t)(PAGES * page)) == 0 && pwrite(file, "x", 1, (off_t)page) == 1);
  char *second = (char *)syscall(SYS_mmap, NULL, page, PROT_READ, MAP_PRIVATE, file, page);
  CHECK(second != MAP_FAILED && *second == 'x');
  errno = 0;
  CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
}

int main(void) {
  passes_every_argument();
  if (prctl(PR_GET_SECCOMP) != 0) {
    return 0; /* the tests themselves run under a filter */
  }
  ignores_questions();
  expects(by_prctl, fork);
  expects(by_syscall, fork);
  expects(by_prctl, raw_fork);
  ignores_children_of_vfork(by_prctl);
  ignores_children_of_vfork(by_syscall);
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && !hak_os_is_filtered());
  return 0;
}
