/* In a sandbox that kills the process, without a handler, for any call, flag or advice that glibc's malloc does not
 * use. OpenSSH, Chromium and Firefox each check some of the flags. Blocks of every size are allocated, grown and freed,
 * free memory goes back to the system, and threads that existed before go on.
 *
 * argument: "first": the filter is set before main's first block; "later": after 64 MiB */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap.h"

enum { THREADS = 2, SMALL = 150000, SMALL_BYTES = 500 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Allows a call if its argument has no other bits than these. */
#define WITHIN(call, argument, bits) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 4), LOAD(args[argument]), \
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, ~(unsigned)(bits), 0, 1), \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void shut(void) {
  static struct sock_filter rules[] = {LOAD(nr),
                                       ALLOW(brk),
                                       ALLOW(munmap),
                                       ALLOW(futex),
                                       ALLOW(getrandom),
                                       ALLOW(write),
                                       ALLOW(exit),
                                       ALLOW(exit_group),
                                       ALLOW(rt_sigprocmask),
                                       WITHIN(mmap, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED),
                                       WITHIN(mprotect, 2, PROT_READ | PROT_WRITE),
                                       WITHIN(mremap, 3, MREMAP_MAYMOVE),
                                       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
                                       LOAD(args[2]),
                                       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED, 0, 1),
                                       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                                       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    trap_skip("no seccomp filters");
  }
}

static void use(void) {
  char **blocks = malloc(SMALL * sizeof *blocks), *grown = NULL;
  CHECK(blocks != NULL);
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < SMALL; i++) {
      CHECK((blocks[i] = malloc(SMALL_BYTES)) != NULL);
      memset(blocks[i], 1, SMALL_BYTES);
    }
    for (size_t i = 0; i < SMALL; i++) {
      free(blocks[i]);
    }
    for (size_t bytes = 20000; bytes < (size_t)90 << 20; bytes += bytes / 2) {
      CHECK((grown = realloc(grown, bytes)) != NULL);
      memset(grown, 2, bytes);
      free(calloc(1, bytes));
    }
    grown = realloc(grown, 3 << 20);
    malloc_trim(0);
  }
  free(grown);
  free(blocks);
}

static pthread_barrier_t gate;

static void *run(void *unused) {
  pthread_barrier_wait(&gate); /* the filter is set between the two waits */
  pthread_barrier_wait(&gate);
  use();
  return unused;
}

static void inside(void *later) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&gate, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, run, NULL) == 0);
  }
  pthread_barrier_wait(&gate);
  if (later) {
    use();
  }
  shut();
  pthread_barrier_wait(&gate);
  use();
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  trap_watchdog(90);
  inside(strcmp(arguments[1], "later") == 0 ? &gate : NULL);
  return 0;
}
