/* A sandbox refuses one system call, from before the first block on. Blocks of every size can be allocated all the
 * same. arguments: the call (mprotect, madvise, mremap, getrandom), the error (ENOMEM, EPERM, ENOSYS) */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "trap.h"

enum { BLOCKS = 2000, ROUNDS = 3 };

typedef struct {
  const char *name;
  unsigned number;
} Named;

static unsigned find(const Named *rows, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(rows[i].name, name) == 0) {
      return rows[i].number;
    }
  }
  fprintf(stderr, "unknown: %s\n", name);
  exit(1);
}

static void refuse(unsigned call, unsigned error) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    trap_skip("no seccomp filters");
  }
}

static void round_of(size_t bytes, size_t count) {
  static char *blocks[BLOCKS];
  for (size_t i = 0; i < count; i++) {
    blocks[i] = i % 3 == 0 ? hak_calloc(1, bytes) : hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    CHECK(i % 3 != 0 || (blocks[i][0] == 0 && blocks[i][bytes - 1] == 0));
    blocks[i][0] = blocks[i][bytes - 1] = (char)i;
  }
  for (size_t i = 0; i < count; i++) {
    if (i % 5 == 0) {
      blocks[i] = hak_realloc(blocks[i], bytes + bytes / 2);
      CHECK(blocks[i] != NULL);
    }
    CHECK(blocks[i][0] == (char)i && blocks[i][bytes - 1] == (char)i);
    hak_free(blocks[i]);
  }
}

int main(int count, char **arguments) {
  static const Named calls[] = {{"mprotect", SYS_mprotect},
                                {"madvise", SYS_madvise},
                                {"mremap", SYS_mremap},
                                {"getrandom", SYS_getrandom},
                                {"munmap", SYS_munmap},
                                {"brk", SYS_brk},
                                {"futex", SYS_futex},
                                {"prctl", SYS_prctl},
                                {"gettid", SYS_gettid},
                                {"mincore", SYS_mincore},
                                {"sched_yield", SYS_sched_yield},
                                {"clock_gettime", SYS_clock_gettime}};
  static const Named errors[] = {{"ENOMEM", ENOMEM}, {"EPERM", EPERM}, {"ENOSYS", ENOSYS}};
  CHECK(count == 3);
  trap_watchdog(60);
  refuse(find(calls, sizeof calls / sizeof *calls, arguments[1]),
         find(errors, sizeof errors / sizeof *errors, arguments[2]));
  for (int round = 0; round < ROUNDS; round++) {
    round_of(16, BLOCKS);
    round_of(1000, BLOCKS);
    round_of(20000, 500);
    round_of(100 << 10, 300);
    round_of(700 << 10, 40);
    round_of(5 << 20, 10);
    HAK(hak_trim)(0);
  }
  HAK(hak_check)();
  return 0;
}
