/* Guarded blocks: which bugs fault, what the report says, and which handler gets the fault afterwards. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "guarded.h"
#include "system.h"

static void without_advice_pages_are_protected(void) {
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  start();
  for (int i = 0; i < 3 * SLOTS; i++) {
    char *block = hak_malloc(700);
    CHECK(is_guarded(block));
    memset(block, 1, 700);
    hak_free(block);
  }
  volatile char *freed = hak_malloc(700);
  hak_free((void *)freed);
  freed[3] = 1;
}

/* A filter that kills the process for calls which glibc's malloc does not make. */
static void shut(void) {
  static struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  hak_os_expect_filter(false);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* What is said */

/* The body must end by the signal, and print each of the texts, in this order. */
static void dies(void (*body)(void), int number, const char *first, const char *second, const char *third) {
  static ChildResult result;
  const char *texts[] = {first, second, third}, *at = result.errors;
  child_run(body, &result);
  bool ok = WIFSIGNALED(result.status) && WTERMSIG(result.status) == number;
  for (int i = 0; ok && i < 3; i++) {
    at = strstr(at, texts[i]);
    ok = at != NULL;
  }
  if (!ok) {
    fprintf(stderr, "status 0x%x, stderr:\n%s", (unsigned)result.status, result.errors);
  }
  CHECK(ok);
}

#define DYING(name, end, crime) \
  static void name(void) { \
    start(); \
    volatile char *block = guarded_at(end, 100), *volatile kept = block; \
    crime; \
    (void)kept; \
  }
DYING(read_after_free, RIGHT, hak_free((void *)block); (void)kept[5])
DYING(write_after_free, LEFT, hak_free((void *)block); kept[99] = 1)
DYING(read_beside_after_free, RIGHT, hak_free((void *)block); (void)kept[-8])
DYING(overflow, RIGHT, kept[112] = 1)
DYING(overflow_under_a_filter, RIGHT, shut(); kept[112] = 1)
DYING(far_overflow, LEFT, kept[hak_os_page_bytes() + 9] = 1)
DYING(underflow, LEFT, (void)kept[-1])
DYING(overflow_seen_at_free, RIGHT, kept[100] = 1; hak_free((void *)block))
DYING(overflow_far_from_the_guard, LEFT, kept[200] = 1; hak_free((void *)block))
DYING(underflow_seen_at_free, RIGHT, kept[-1] = 1; hak_free((void *)block))
DYING(double_free, RIGHT, hak_free((void *)block); hak_free((void *)kept))
DYING(free_inside, RIGHT, hak_free((void *)(kept + 16)))
DYING(size_after_free, LEFT, hak_free((void *)block); (void)hak_malloc_usable_size((void *)kept))
DYING(realloc_after_free, LEFT, hak_free((void *)block); (void)hak_realloc((void *)kept, 1000))
DYING(damaged_while_freed_by_realloc, RIGHT, kept[-3] = 1; (void)hak_realloc((void *)block, 1000))

static void bugs_are_told(void) {
  const char *size = "block of 100 bytes at 0x", *allocated = "allocated by thread 1", *freed = "freed by thread 1";
  dies(read_after_free, SIGSEGV, "hakmem: use after free: ", "5 bytes behind the start", size);
  dies(read_after_free, SIGSEGV, "accessed by thread 1", allocated, freed);
  dies(write_after_free, SIGSEGV, "hakmem: use after free: ", "99 bytes behind the start", freed);
#ifdef __x86_64__
  dies(read_after_free, SIGSEGV, "use after free: read at 0x", size, allocated);
  dies(write_after_free, SIGSEGV, "use after free: write at 0x", size, allocated);
#endif
  dies(read_beside_after_free, SIGSEGV, "hakmem: use after free: ", "8 bytes before the start", freed);
  dies(overflow, SIGSEGV, "hakmem: overflow: ", "12 bytes behind the end", allocated);
  dies(overflow_under_a_filter, SIGSEGV, "hakmem: overflow: ", "accessed by thread 1", allocated);
  dies(far_overflow, SIGSEGV, "hakmem: overflow: ", size, allocated);
  dies(underflow, SIGSEGV, "hakmem: underflow: ", "1 bytes before the start", allocated);
  dies(overflow_seen_at_free, SIGABRT, "hakmem: overflow: 0x", allocated,
       "free(): written behind the end of the block");
  dies(overflow_far_from_the_guard, SIGABRT, "hakmem: overflow: 0x", size, "written behind the end of the block");
  dies(underflow_seen_at_free, SIGABRT, "hakmem: underflow: 0x", freed,
       "free(): written before the start of the block");
  dies(double_free, SIGABRT, size, freed, "hakmem: free(): double free: ");
  dies(free_inside, SIGABRT, size, allocated, "hakmem: free(): not the start of a block: ");
  dies(size_after_free, SIGABRT, size, freed, "hakmem: malloc_usable_size(): double free: ");
  dies(realloc_after_free, SIGABRT, size, freed, "hakmem: realloc(): double free: ");
  dies(damaged_while_freed_by_realloc, SIGABRT, "hakmem: underflow: 0x", size, "written before the start");
  dies(without_advice_pages_are_protected, SIGSEGV, "hakmem: use after free: ", "3 bytes behind the start", freed);
}

/* Who has the fault afterwards */

/* Does not use CHECK, which may not be called in a handler. */
static void handle(int number) {
  static const char text[] = "handled\n";
  bool ok = number == SIGSEGV && write(STDERR_FILENO, text, sizeof text - 1) > 0;
  _exit(ok ? 3 : 4);
}

static void handle_with_details(int number, siginfo_t *info, void *context) {
  if (info->si_signo == number && context != NULL && hak_guard_slot_of(info->si_addr) != NULL) {
    handle(number);
  }
  _exit(4);
}

static void the_handler_before_has_it(void) {
  signal(SIGSEGV, handle);
  read_after_free();
}

static void it_gets_the_details(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  action.sa_sigaction = handle_with_details;
  sigaction(SIGSEGV, &action, NULL);
  read_after_free();
}

static void a_later_handler_replaces_ours(void) {
  start();
  char *volatile block = guarded_at(RIGHT, 100);
  signal(SIGSEGV, handle);
  hak_free(block);
  (void)*(volatile char *)block;
}

static void fault_elsewhere(void) {
  start();
  (void)*(volatile char *)hide_pointer((void *)16);
}

static void signal_from_elsewhere(void) {
  start();
  kill(getpid(), SIGSEGV);
  for (;;) {
    pause();
  }
}

static void ignored_before(void) {
  signal(SIGSEGV, SIG_IGN);
  start();
  CHECK(!hak_sample_guard(ALL, SLOTS)); /* there is one pool */
  kill(getpid(), SIGSEGV);
  char *volatile block = guarded_at(RIGHT, 100);
  hak_free(block);
  (void)*(volatile char *)block;
}

static void on_its_own_stack(void) {
  static char stack[16 << 10];
  stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
  CHECK(sigaltstack(&alternative, NULL) == 0);
  read_after_free();
}

static void faults_go_where_they_went(void) {
  static ChildResult result;
  void (*handled[])(void) = {the_handler_before_has_it, it_gets_the_details, a_later_handler_replaces_ours};
  for (int i = 0; i < 3; i++) {
    child_run(handled[i], &result);
    bool told = strstr(result.errors, "hakmem: use after free") != NULL;
    CHECK(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 3 && told == (i < 2));
    CHECK(strcmp(result.errors + result.length - 8, "handled\n") == 0);
  }
  void (*deadly[])(void) = {fault_elsewhere, signal_from_elsewhere};
  for (int i = 0; i < 2; i++) {
    child_run(deadly[i], &result);
    CHECK(WIFSIGNALED(result.status) && WTERMSIG(result.status) == SIGSEGV && result.length == 0);
  }
  dies(ignored_before, SIGSEGV, "hakmem: use after free", "accessed", "freed");
  dies(on_its_own_stack, SIGSEGV, "hakmem: use after free", "accessed", "freed");
}

int main(void) {
  bugs_are_told();
  faults_go_where_they_went();
  return 0;
}
