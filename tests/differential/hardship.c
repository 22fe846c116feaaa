#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"

/* Forks at any moment, as a crash reporter does. The child uses no heap. */
static void fork_in_handler(int signal_number) {
  (void)signal_number;
  pid_t child = fork();
  if (child == 0) {
    _exit(0);
  }
  while (child > 0 && waitpid(child, NULL, 0) < 0) {
  }
}

static void storm(int64_t us) {
  struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
  struct itimerval every = {.it_interval.tv_usec = us, .it_value.tv_usec = us};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
}

/* Neighbouring mappings get different protection, since the kernel joins those with the same one. */
static void many_mappings(int64_t count) {
  char *at = mmap(NULL, (size_t)count * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (int64_t i = 0; at != MAP_FAILED && i < count; i += 2) {
    if (mprotect(at + i * 4096, 4096, PROT_READ) != 0) {
      break;
    }
  }
}

/* Takes all address space except `left` bytes, in pieces of which each is half as large as the one before. */
static void reserve_all_but(int64_t left) {
  void *room = mmap(NULL, (size_t)left, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (size_t bytes = (size_t)1 << 46; bytes >= (size_t)1 << 20;) {
    if (mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
      bytes /= 2;
    }
  }
  if (room != MAP_FAILED) {
    munmap(room, (size_t)left);
  }
}

void hardship(const struct op *op) {
  switch (op->code) {
  case LOCK:
    mlockall(MCL_CURRENT | MCL_FUTURE);
    break;
  case MAPS:
    many_mappings(op->x);
    break;
  case RESERVE:
    reserve_all_but(op->x);
    break;
  case STORM:
    storm(op->x);
    break;
  case OPEN:
    dlopen(getenv("DIFFERENTIAL_OPEN"), RTLD_NOW);
    break;
  default:
    fail("unknown operation");
  }
}
