/* While one thread is inside a system call that gives memory back or gets some, another thread can allocate and free
 * any block: no lock is held over system calls. A filter stops the calls of the first thread in the kernel until the
 * second thread has done its work. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trap.h"

#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1
#endif

enum { MID_BLOCKS = 600, MID_BYTES = 50 << 10, SMALL_BLOCKS = 3000, STOPS_WITH_WORK = 40, HUGE_BLOCKS = 6 };
#define HUGE_BYTES ((size_t)5 << 20)

static _Atomic int listener = -1;
static atomic_bool purger_done;

static int install_filter(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void take_and_give(void **blocks, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    for (size_t at = 0; at < bytes; at += 4096) {
      ((char *)blocks[i])[at] = 1;
    }
  }
  for (size_t i = 0; i < count; i++) {
    hak_free(blocks[i]);
  }
}

/* Each round fills the heap anew, so that there is memory to give back and to get. */
static void *purge(void *argument) {
  static void *blocks[SMALL_BLOCKS];
  (void)argument;
  take_and_give(blocks, 10, MID_BYTES); /* fills the thread's cache */
  int filter = install_filter();
  atomic_store(&listener, filter < 0 ? -2 : filter);
  for (int round = 0; filter >= 0 && round < 3; round++) {
    take_and_give(blocks, MID_BLOCKS, MID_BYTES);
    take_and_give(blocks, HUGE_BLOCKS, HUGE_BYTES);
    take_and_give(blocks, SMALL_BLOCKS, 1000);
    HAK(hak_trim)(0);
  }
  atomic_store(&purger_done, true);
  return NULL;
}

static void work(void) {
  static void *blocks[SMALL_BLOCKS];
  take_and_give(blocks, 100, MID_BYTES);
  take_and_give(blocks, 3, HUGE_BYTES);
  take_and_give(blocks, 10, 400 << 10);
  take_and_give(blocks, 500, 300);
}

/* Lets a waiting call of the first thread go on. False: no call was waiting. */
static bool serve_one(int from, bool with_work) {
  struct pollfd ready = {.fd = from, .events = POLLIN};
  struct seccomp_notif stopped = {0};
  if (poll(&ready, 1, 20) <= 0 || !(ready.revents & POLLIN) || ioctl(from, SECCOMP_IOCTL_NOTIF_RECV, &stopped) != 0) {
    return false;
  }
  if (with_work) {
    work();
  }
  struct seccomp_notif_resp answer = {.id = stopped.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  CHECK(ioctl(from, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
  return true;
}

int main(void) {
  pthread_t purger;
  trap_watchdog(60);
  work();
  CHECK(pthread_create(&purger, NULL, purge, NULL) == 0);
  while (atomic_load(&listener) == -1) {
  }
  if (atomic_load(&listener) < 0) {
    trap_skip("no seccomp notifications");
  }
  int stops = 0;
  while (!atomic_load(&purger_done)) {
    stops += serve_one(atomic_load(&listener), stops < STOPS_WITH_WORK || stops % 16 == 0);
  }
  while (serve_one(atomic_load(&listener), false)) { /* calls at the end of the thread, for its stack */
  }
  CHECK(stops > 0);
  printf("%d system calls were stopped\n", stops);
  fflush(stdout);
  _exit(0); /* the thread may be ending, inside a call that is never served */
}
