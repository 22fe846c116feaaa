/* Intercepts one function of libc, whatever its arguments are, and behaves as intercepting libraries may:
 *   LOADED_MODE=allocate   allocates and frees at every call, and keeps a few blocks whose contents it checks
 *   LOADED_MODE=first      does much of the same at the first call only; other threads wait for this call
 *   LOADED_MODE=block      sleeps a little
 *   LOADED_MODE=fail       makes every third call fail, after the first hundred
 * At the end it writes the number of calls to the descriptor LOADED_REPORT, if that is given.
 * With INTERPOSED=NAME, this file becomes the entry of that function. Without, it becomes the part that all entries
 * share. */
#ifdef INTERPOSED
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

const char interpose_name[] = TEXT(INTERPOSED);

/* The entry preserves every register that may hold an argument. */
__asm__(".text\n.globl " TEXT(INTERPOSED) "\n.type " TEXT(INTERPOSED) ", @function\n" TEXT(
    INTERPOSED) ":\n"
                "  endbr64\n"
                "  push %rbp\n  mov %rsp, %rbp\n"
                "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n  push %rax\n  push %r10\n"
                "  sub $128, %rsp\n"
                "  movdqu %xmm0, 0(%rsp)\n  movdqu %xmm1, 16(%rsp)\n  movdqu %xmm2, 32(%rsp)\n  movdqu %xmm3, "
                "48(%rsp)\n"
                "  movdqu %xmm4, 64(%rsp)\n  movdqu %xmm5, 80(%rsp)\n  movdqu %xmm6, 96(%rsp)\n  movdqu %xmm7, "
                "112(%rsp)\n"
                "  call interpose_before\n"
                "  mov %rax, %r11\n"
                "  movdqu 0(%rsp), %xmm0\n  movdqu 16(%rsp), %xmm1\n  movdqu 32(%rsp), %xmm2\n  movdqu 48(%rsp), "
                "%xmm3\n"
                "  movdqu 64(%rsp), %xmm4\n  movdqu 80(%rsp), %xmm5\n  movdqu 96(%rsp), %xmm6\n  movdqu 112(%rsp), "
                "%xmm7\n"
                "  add $128, %rsp\n"
                "  pop %r10\n  pop %rax\n  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n  pop "
                "%rbp\n"
                "  test %r11, %r11\n  jz 1f\n  jmp *%r11\n"
                "1: mov $-1, %rax\n  ret\n"
                ".size " TEXT(INTERPOSED) ", . - " TEXT(INTERPOSED) "\n");
#else
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern const char interpose_name[];

enum { KEPT = 40, MANY = 300, BEFORE_FAILURES = 100, OFTEN = 3000 };

static void *next;
static atomic_ulong calls;
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

static void die(const char *why) {
  char text[128];
  int length = snprintf(text, sizeof text, "interpose %s: %s\n", interpose_name, why);
  syscall(SYS_write, STDERR_FILENO, text, length);
  syscall(SYS_exit_group, 3);
}

static unsigned char *fresh(size_t bytes, unsigned char mark) {
  unsigned char *block = malloc(bytes);
  if (!block) {
    return NULL; /* the mode makes calls fail */
  }
  for (size_t i = 0; i < bytes; i++) {
    block[i] = mark;
    __asm__ volatile("" ::: "memory"); /* a loop, not memset */
  }
  return block;
}

static void end(unsigned char *block, size_t bytes, unsigned char mark) {
  for (size_t i = 0; block && i < bytes; i++) {
    if (block[i] != mark) {
      die("contents changed");
    }
  }
  free(block);
}

static void allocate_one(unsigned long call) {
  static _Thread_local struct {
    unsigned char *block;
    size_t bytes;
    unsigned char mark;
  } kept[KEPT] __attribute__((tls_model("initial-exec")));
  static const size_t sizes[] = {16, 100, 24, 400, 3000, 64, 48, 1200, 32, 40000, 200};
  size_t at = call % KEPT, bytes = sizes[call % (sizeof sizes / sizeof *sizes)];
  end(kept[at].block, kept[at].bytes, kept[at].mark);
  kept[at].mark = (unsigned char)(call * 7 + 1);
  kept[at].bytes = bytes;
  kept[at].block = fresh(bytes, kept[at].mark);
}

/* Allocates less at each call if the function is called often. */
static void allocate(unsigned long call) {
  static _Thread_local unsigned long blocks __attribute__((tls_model("initial-exec")));
  for (int i = 0; i < (call < OFTEN ? KEPT : 1); i++) {
    allocate_one(blocks++);
  }
}

static void initialise(void) {
  static atomic_int state;
  int none = 0;
  if (atomic_compare_exchange_strong(&state, &none, 1)) {
    void *blocks[MANY];
    for (size_t i = 0; i < MANY; i++) {
      blocks[i] = fresh(1 + i * i, 5);
    }
    free(calloc(1, 3 << 20));
    dlsym(RTLD_DEFAULT, "a name that nobody has");
    dlerror();
    for (size_t i = 0; i < MANY; i++) {
      end(blocks[i], 1 + i * i, 5);
    }
    atomic_store(&state, 2);
  }
  while (atomic_load(&state) != 2) { /* another thread does it */
    syscall(SYS_sched_yield);
  }
}

/* 0: allocate, 1: first, 2: block, 3: fail */
static int mode(void) {
  static atomic_int known = -1;
  if (known < 0) {
    const char *name = getenv("LOADED_MODE");
    known = !name || *name == 'a' ? 0 : name[1] == 'i' ? 1 : *name == 'b' ? 2 : 3;
  }
  return known;
}

static void find_next(void) {
  if (strcmp(interpose_name, "dlsym") == 0) {
    next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  } else {
    next = dlsym(RTLD_NEXT, interpose_name);
  }
  if (!next) {
    die("there is none behind");
  }
}

/* Returns the function to call next; NULL: the call fails. */
__attribute__((used)) void *interpose_before(void) {
  bool nested = inside;
  inside = true;
  if (!next) {
    find_next();
  }
  if (nested) {
    return next;
  }
  int saved = errno;
  unsigned long call = atomic_fetch_add(&calls, 1) + 1;
  int how = mode();
  if (how == 0) {
    allocate(call);
  } else if (how == 1) {
    initialise();
  } else if (how == 2 && call % 64 == 1) {
    struct timespec moment = {0, 200000};
    syscall(SYS_nanosleep, &moment, NULL);
  }
  bool fails = how == 3 && call > BEFORE_FAILURES && call % 3 == 0;
  errno = fails ? ENOMEM : saved;
  inside = false;
  return fails ? NULL : next;
}

__attribute__((destructor)) static void report(void) {
  const char *fd = getenv("LOADED_REPORT");
  if (fd) {
    inside = true;
    dprintf(atoi(fd), "%lu\n", atomic_load(&calls));
  }
}
#endif
