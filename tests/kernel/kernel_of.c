/* Runs a program as on another kernel: a filter refuses the calls that this kernel lacks, with its errors.
 * arguments: linux-4.18, gvisor or old-profile; the program and its arguments */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { ANY = -1, SKIP = 77, RULES_MAX = 16, STEPS_MAX = 8, FIRST_AFTER_4_18 = 424, CLONE3 = 435 };

/* A call is refused if the argument is at least the value, or equal to it. */
typedef struct {
  unsigned call;
  int argument; /* ANY: always */
  unsigned value;
  bool exactly;
  unsigned error;
} Rule;

/* Madvise: 20 is MADV_COLD (5.4), so 24, MADV_DONTNEED_LOCKED (5.18), and 102, 103, the guards (6.13), are unknown,
 * too. Mremap: 4 is MREMAP_DONTUNMAP (5.7). Prctl: names of mappings came with 5.17. */
#define NEW_ARGUMENTS \
  {SYS_madvise, 2, 20, false, EINVAL}, {SYS_mremap, 3, 4, false, EINVAL}, { \
    SYS_prctl, 0, 0x53564d41, true, EINVAL \
  }

static const struct {
  const char *name;
  unsigned newer, clone3; /* error of calls that are newer than Linux 4.18; error of clone3 */
  Rule rules[RULES_MAX];
} kernels[] = {
    {"linux-4.18", ENOSYS, ENOSYS, {NEW_ARGUMENTS}},
    /* Follows gVisor's table of calls, and of the advice that its madvise accepts. */
    {"gvisor",
     ENOSYS,
     ENOSYS,
     {NEW_ARGUMENTS,
      {SYS_madvise, 2, MADV_WIPEONFORK, false, EINVAL},
      {SYS_pkey_mprotect, ANY, 0, false, ENOSYS},
      {SYS_userfaultfd, ANY, 0, false, ENOSYS},
      {SYS_perf_event_open, ANY, 0, false, ENODEV},
      {SYS_process_vm_readv, ANY, 0, false, ENOSYS}}},
    /* A container profile that is older than the calls. Docker's profile returned the right error only for clone3. */
    {"old-profile",
     EPERM,
     ENOSYS,
     {{SYS_pkey_mprotect, ANY, 0, false, EPERM},
      {SYS_userfaultfd, ANY, 0, false, EPERM},
      {SYS_perf_event_open, ANY, 0, false, EPERM},
      {SYS_process_vm_readv, ANY, 0, false, EPERM},
      {SYS_membarrier, ANY, 0, false, EPERM}}},
};

static struct sock_filter program[STEPS_MAX * (RULES_MAX + 1)];
static unsigned short steps;

static void step(uint16_t code, uint32_t value, uint8_t if_not) {
  program[steps++] = (struct sock_filter){code, 0, if_not, value};
}

static void load(size_t offset) {
  step(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0);
}

static void refuse(uint32_t error) {
  step(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0);
}

static void add(const Rule *rule) {
  load(offsetof(struct seccomp_data, nr));
  step(BPF_JMP | BPF_JEQ | BPF_K, rule->call, rule->argument == ANY ? 1 : 3);
  if (rule->argument != ANY) {
    load(offsetof(struct seccomp_data, args) + (size_t)rule->argument * sizeof(uint64_t)); /* its low half */
    step(BPF_JMP | BPF_K | (rule->exactly ? BPF_JEQ : BPF_JGE), rule->value, 1);
  }
  refuse(rule->error);
}

int main(int count, char **arguments) {
  CHECK(count >= 3);
  size_t k = 0;
  while (k < sizeof kernels / sizeof *kernels && strcmp(kernels[k].name, arguments[1]) != 0) {
    k++;
  }
  CHECK(k < sizeof kernels / sizeof *kernels);
  for (const Rule *rule = kernels[k].rules; rule->error != 0; rule++) {
    add(rule);
  }
  load(offsetof(struct seccomp_data, nr));
  step(BPF_JMP | BPF_JEQ | BPF_K, CLONE3, 1);
  refuse(kernels[k].clone3);
  step(BPF_JMP | BPF_JGE | BPF_K, FIRST_AFTER_4_18, 1);
  refuse(kernels[k].newer);
  step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0);
  struct sock_fprog filter = {steps, program};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    return SKIP;
  }
  char page[1];
  CHECK(syscall(SYS_pidfd_open, getpid(), 0) < 0 && (unsigned)errno == kernels[k].newer);
  CHECK(kernels[k].clone3 != kernels[k].newer || (madvise(page, 1, 24) != 0 && errno == EINVAL));
  execv(arguments[2], arguments + 2);
  perror(arguments[2]);
  return 1;
}
