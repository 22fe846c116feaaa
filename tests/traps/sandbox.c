/* In a sandbox that ends the program for any system call or argument that glibc's malloc does not use: memory must not
 * be executable, and getrandom must not wait. Advice other than MADV_DONTNEED is refused, as in OpenSSH's sandbox.
 *
 * argument: "late": the filter is set after the threads have allocated; "fresh": before their first block */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "trap.h"

enum { THREADS = 3, BLOCKS = 3000, DECAY_MS = 60 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define GIVE(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), GIVE(SECCOMP_RET_ALLOW)
/* Checks only the low word of an argument. If nothing matches, the call's number is loaded again. */
#define ALLOW_IF(call, argument, test, value, yes, no, otherwise) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 4), LOAD(args[argument]), \
      BPF_JUMP(BPF_JMP | (test) | BPF_K, value, yes, no), GIVE(SECCOMP_RET_ALLOW), GIVE(otherwise)

static void on_kill(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)context;
  dprintf(STDERR_FILENO, "system call %d\n", info->si_syscall);
  _exit(1);
}

static void shut(void) {
  static struct sock_filter rules[] = {
      LOAD(nr),
      ALLOW(brk),
      ALLOW(munmap),
      ALLOW(mremap),
      ALLOW(futex),
      ALLOW_IF(mmap, 2, BPF_JSET, PROT_EXEC, 1, 0, SECCOMP_RET_TRAP),
      ALLOW_IF(mprotect, 2, BPF_JSET, PROT_EXEC, 1, 0, SECCOMP_RET_TRAP),
      ALLOW_IF(madvise, 2, BPF_JEQ, MADV_DONTNEED, 0, 1, SECCOMP_RET_ERRNO | EINVAL),
      ALLOW_IF(getrandom, 2, BPF_JEQ, 1 /* GRND_NONBLOCK */, 0, 1, SECCOMP_RET_TRAP),
      /* calls of the test itself, and of threads that begin and end */
      ALLOW(write),
      ALLOW(exit),
      ALLOW(exit_group),
      ALLOW(rt_sigprocmask),
      ALLOW(rt_sigreturn),
      ALLOW(clone3),
      ALLOW(clone),
      ALLOW(set_robust_list),
#ifdef SYS_rseq
      ALLOW(rseq),
#endif
      GIVE(SECCOMP_RET_TRAP),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  struct sigaction action = {.sa_sigaction = on_kill, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    trap_skip("no seccomp filters");
  }
}

static void small_ones(char **blocks) {
  for (size_t bytes = 16; bytes <= 32768; bytes = bytes * 3 / 2) {
    size_t count = bytes < 4096 ? BLOCKS : 600;
    for (size_t i = 0; i < count; i++) {
      blocks[i] = i % 4 ? malloc(bytes) : calloc(1, bytes);
      CHECK(blocks[i] != NULL);
      blocks[i][0] = blocks[i][bytes - 1] = 1;
    }
    for (size_t i = 0; i < count; i++) {
      if (i % 40 != 39) { /* few stay, so that a sweep happens */
        free(blocks[i]);
        blocks[i] = NULL;
      }
    }
    malloc_trim(0);
    for (size_t i = 39; i < count; i += 40) {
      free(blocks[i]);
    }
  }
}

static void large_ones(char **blocks) {
  char *grown = NULL;
  for (size_t bytes = 40000; bytes < 24U << 20; bytes = bytes * 5 / 3) {
    grown = realloc(grown, bytes);
    blocks[0] = aligned_alloc(1 << 16, 1 << 17);
    blocks[1] = malloc(bytes);
    CHECK(grown && blocks[0] && blocks[1]);
    grown[bytes - 1] = blocks[1][bytes - 1] = 1;
    free(blocks[0]);
    free(blocks[1]);
  }
  free(realloc(grown, 3U << 20));
}

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now); /* no system call where there is a vDSO */
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void use(void) {
  static _Thread_local char *blocks[BLOCKS];
  for (int round = 0; round < 2; round++) {
    small_ones(blocks);
    large_ones(blocks);
    for (uint64_t since = now_ms(); now_ms() - since < DECAY_MS;) {
      free(malloc(100));
    }
  }
  HAK(hak_thread_flush)();
}

static pthread_barrier_t gate;

static void *run(void *fresh) {
  if (!fresh) {
    free(malloc(100));
  }
  pthread_barrier_wait(&gate); /* the filter is set between the two waits */
  pthread_barrier_wait(&gate);
  use();
  return NULL;
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  bool fresh = strcmp(arguments[1], "fresh") == 0;
  pthread_t threads[THREADS];
  trap_watchdog(90);
  (void)HAK(hak_thread_flush); /* looked up before the filter is set */
  pthread_barrier_init(&gate, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, run, fresh ? &gate : NULL) == 0);
  }
  pthread_barrier_wait(&gate);
  shut();
  pthread_barrier_wait(&gate);
  use();
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  pthread_barrier_init(&gate, NULL, 1);
  CHECK(pthread_create(&threads[0], NULL, run, &gate) == 0);
  CHECK(pthread_join(threads[0], NULL) == 0);
  return 0;
}
