/* Time, randomness, waiting, and other system services apart from memory. */
#include "direct.h"
#include "os.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static uint64_t read_clock(clockid_t clock) {
  struct timespec now = {0, 0};
  hak_clock(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t hak_os_now_ms(void) {
  return read_clock(CLOCK_MONOTONIC_COARSE) / 1000000;
}

uint64_t hak_os_busy_ms(void) {
  return read_clock(CLOCK_THREAD_CPUTIME_ID) / 1000000;
}

uint64_t hak_os_now_ns(void) {
  return read_clock(CLOCK_MONOTONIC);
}

uint64_t hak_os_wall_ns(void) {
  return read_clock(CLOCK_REALTIME);
}

/* Does not use AT_RANDOM: libc makes its stack and pointer guards of these bytes. */
static uint64_t weak_random(void) {
  static _Atomic uint64_t calls;
  uint64_t bits = 0x9e3779b97f4a7c15U, call = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
  uint64_t parts[] = {hak_os_now_ns(), (uintptr_t)&bits, (uintptr_t)&calls, call};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) { /* the folded product cannot be inverted */
    unsigned __int128 product = (unsigned __int128)(bits ^ parts[i]) * 0xd6e8feb86659fd93U;
    bits = (uint64_t)product ^ (uint64_t)(product >> 64);
  }
  return bits;
}

uint64_t hak_os_random(void) {
  uint64_t bits = 0;
  long got = hak_direct(SYS_getrandom, (long)&bits, sizeof bits, 1 /* GRND_NONBLOCK */);
  return got == (long)sizeof bits ? bits : weak_random();
}

void hak_os_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ms) {
  const struct timespec longest = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
  hak_direct(SYS_futex, (long)word, 128 /* FUTEX_WAIT_PRIVATE */, value, (long)&longest);
}

void hak_os_wake(_Atomic uint32_t *word) {
  hak_direct(SYS_futex, (long)word, 129 /* FUTEX_WAKE_PRIVATE */, 1);
}

#ifdef __GLIBC__
enum { LIBC_SIGNALS = 2, TLS_ON_STACK = 1 };
#else
enum { LIBC_SIGNALS = 3, TLS_ON_STACK = 0 };
#endif

/* All signals except libc's own, from 32 on: libc waits until threads handle them. */
uint64_t hak_os_block_signals(void) {
  uint64_t all = ~((((uint64_t)1 << LIBC_SIGNALS) - 1) << 31), before = 0;
  hak_direct(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all);
  return before;
}

void hak_os_set_blocked_signals(uint64_t blocked) {
  hak_direct(SYS_rt_sigprocmask, SIG_SETMASK, (long)&blocked, 0, sizeof blocked);
}

/* The kernel reads the word before it refuses the call, whose first argument is invalid. */
bool hak_os_is_readable(uintptr_t at) {
  return hak_direct(SYS_rt_sigprocmask, -1, (long)at, 0, sizeof(uint64_t)) == -EINVAL;
}

uintptr_t hak_os_word_at(uintptr_t at) {
  uintptr_t word = 0;
  if (at % sizeof word == 0 && hak_os_is_readable(at)) {
    memcpy(&word, (const void *)at, sizeof word); /* NOLINT(performance-no-int-to-ptr) */
  }
  return word;
}

void hak_os_reset_abort(void) {
  const long action[4] = {(long)SIG_DFL}; /* the kernel's structure, which has at most four words */
  hak_direct(SYS_rt_sigaction, SIGABRT, (long)action, 0, sizeof(uint64_t));
}

static size_t stack_min HAK_START_DATA; /* 0: not known */

void hak_os_set_stack_min(size_t bytes) {
  stack_min = bytes;
}

/* Libc allocates for the thread, and so may libraries that intercept its function. glibc takes the program's static TLS
 * from the stack: where its size is not known, the stack is as large as any. */
bool hak_os_start_thread(void *(*work)(void *)) {
  enum { STACK_BYTES = 128 << 10 };
  if (hak_direct_is_confined()) {
    return false;
  }
  int saved = errno;
  hak_aside_t aside;
  pthread_t thread;
  pthread_attr_t attributes;
  uint64_t signals = hak_os_block_signals();
  hak_hook_heap.step_aside(&aside);
  bool ok = pthread_attr_init(&attributes) == 0;
  if (ok) {
    if (stack_min > 0 || !TLS_ON_STACK) {
      pthread_attr_setstacksize(&attributes, STACK_BYTES + stack_min);
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    ok = pthread_create(&thread, &attributes, work, (void *)signals) == 0; /* NOLINT(performance-no-int-to-ptr) */
    pthread_attr_destroy(&attributes);
  }
  hak_hook_heap.step_back(&aside);
  hak_os_set_blocked_signals(signals);
  errno = saved;
  return ok;
}

bool hak_os_shares_memory(void) {
  enum { KCMP_VM = 1 };
  long filter = hak_direct(SYS_prctl, PR_GET_SECCOMP);
  return filter == 0 && hak_direct(SYS_kcmp, hak_direct(SYS_getpid), hak_direct(SYS_getppid), KCMP_VM) == 0;
}

static uint64_t bit_of(int signal) {
  return (uint64_t)1 << (signal - 1);
}

uint32_t hak_os_enter_background(const char *name, const void *signals) {
  uint64_t own = bit_of(SIGSEGV) | bit_of(SIGBUS) | bit_of(SIGILL) | bit_of(SIGFPE) | bit_of(SIGTRAP) | bit_of(SIGSYS);
  own &= ~(uint64_t)(uintptr_t)signals; /* a program that waits for a blocked signal must get it */
  hak_direct(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&own, 0, sizeof own);
  hak_direct(SYS_prctl, PR_SET_NAME, (long)name);
  hak_hook_heap.leave();
  return (uint32_t)hak_direct(SYS_gettid);
}

bool hak_os_is_real_time(void) {
  enum { RESET_ON_FORK = 0x40000000, DEADLINE = 6 };
  long policy = hak_direct(SYS_sched_getscheduler, 0) & ~RESET_ON_FORK;
  return policy == SCHED_FIFO || policy == SCHED_RR || policy == DEADLINE;
}

bool hak_os_has_other_thread(uint32_t thread) {
  return !hak_os_is_filtered() && thread != hak_direct(SYS_gettid) &&
         hak_direct(SYS_tgkill, hak_direct(SYS_getpid), thread, 0) == 0;
}

void hak_os_yield(void) {
  static const struct timespec moment = {0, 20000};
  uint32_t word = 0;
  hak_direct(SYS_futex, (long)&word, 128 /* FUTEX_WAIT_PRIVATE */, 0, (long)&moment);
}

static _Atomic uint32_t id_place HAK_START_DATA; /* 0: not known */
static _Atomic uint32_t process HAK_START_DATA;  /* where the place is not known, this process; 0: not known */

void hak_os_set_thread_id_place(const uint32_t field[3]) {
  if (field && field[0] == 32) {
    atomic_store_explicit(&id_place, field[2], memory_order_relaxed);
  }
  hak_os_know_process();
}

void hak_os_know_process(void) {
  if (atomic_load_explicit(&id_place, memory_order_relaxed) == 0) {
    atomic_store_explicit(&process, (uint32_t)hak_direct(SYS_getpid), memory_order_relaxed);
  }
}

uint32_t hak_os_thread_id(void) {
  uint32_t place = atomic_load_explicit(&id_place, memory_order_relaxed);
  return place ? *(const uint32_t *)((uintptr_t)pthread_self() + place) : 0;
}

bool hak_os_is_known_thread(void) {
  uint32_t id = hak_os_thread_id();
  return id ? hak_direct(SYS_gettid) == id
            : hak_direct(SYS_getpid) == atomic_load_explicit(&process, memory_order_relaxed);
}

char *hak_os_break(void) {
  long end = hak_direct(SYS_brk);
  return (char *)end; /* NOLINT(performance-no-int-to-ptr) */
}

bool hak_os_secure_mode(void) {
  return hak_auxiliary(AT_SECURE) != 0;
}
