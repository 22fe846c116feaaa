/* Puts itself under a filter of system calls that allows all of them, switches huge pages off, and waits. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void) {
  struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {1, all};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ||
      prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) {
    perror("prctl");
    return 1;
  }
  puts("ready");
  fflush(stdout);
  pause();
  return 0;
}
