/* Intercepts calls that change attributes of pages, since the program may free a block with such pages, and calls that
 * set a filter of system calls. System calls without libc escape it. Each call goes on to the next function of its
 * name, since other libraries may intercept it too. The heap's own calls also pass here. */
#include "hakmem.h"
#include "page_attributes.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { GUARD_INSTALL = 102 }; /* MADV_GUARD_INSTALL */
/* Of <linux/seccomp.h>, which musl's compiler does not find. */
enum { SET_STRICT = 0, SET_FILTER = 1, MODE_STRICT = 1 };

typedef long (*call_t)(long a, long b, long c, long d, long e);
typedef _Atomic(call_t) next_t;

/* Used if there is no next function: in a program without shared libraries. */
#define DIRECT(call) \
  static long direct_##call(long a, long b, long c, long d, long e) { \
    return hak_direct_errno(hak_direct(SYS_##call, a, b, c, d, e)); \
  } \
  static next_t next_##call HAK_START_DATA;
DIRECT(mprotect)
DIRECT(pkey_mprotect)
DIRECT(madvise)
DIRECT(prctl)

/* The next function of the name. During a call of the heap itself, nothing is looked up, since dlsym may allocate. */
static call_t find(next_t *next, const char *name, call_t direct) {
  call_t found = atomic_load_explicit(next, memory_order_relaxed);
  if (HAK_UNLIKELY(!found)) {
    if (hak_os_is_calling()) {
      return direct;
    }
    *(void **)&found = dlsym(RTLD_NEXT, name);
    if (!found) {
      dlerror(); /* keeps the program's own pending error */
      found = direct;
    }
    atomic_store_explicit(next, found, memory_order_relaxed);
  }
  return found;
}
#define NEXT(call) find(&next_##call, #call, direct_##call)

/* libc's syscall, with the arguments that are in registers. On x86-64 a last one stays in place on the stack. */
#ifdef __x86_64__
#define LAST(argument)
#else
#define LAST(argument) , argument
#endif
typedef long syscall_t(long number, long a, long b, long c, long d, long e LAST(long f));
syscall_t hak_syscall __asm__("syscall");

static long direct_syscall(long number, long a, long b, long c, long d, long e, long f) {
  return hak_direct_errno(hak_direct(number, a, b, c, d, e, f));
}

static HAK_NOINLINE syscall_t *find_syscall(void) {
  static next_t next_syscall HAK_START_DATA;
  return (syscall_t *)(void *)find(&next_syscall, "syscall", (call_t)(void *)direct_syscall);
}

__attribute__((constructor(101))) static void find_all(void) {
  (void)NEXT(mprotect);
  (void)NEXT(pkey_mprotect);
  (void)NEXT(madvise);
  (void)NEXT(prctl);
  (void)find_syscall();
}

HAK_EXPORT int mprotect(void *at, size_t bytes, int protection) {
  if ((protection & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE)) {
    hak_page_attributes_note(at, bytes, HAK_OS_PROTECTED);
  }
  return (int)NEXT(mprotect)((long)at, (long)bytes, protection, 0, 0);
}

HAK_EXPORT int pkey_mprotect(void *at, size_t bytes, int protection, int key) {
  hak_page_attributes_note(at, bytes, HAK_OS_KEYED);
  return (int)NEXT(pkey_mprotect)((long)at, (long)bytes, protection, key, 0);
}

HAK_EXPORT int madvise(void *at, size_t bytes, int advice) {
  if (advice == MADV_DONTFORK || advice == MADV_WIPEONFORK || advice == GUARD_INSTALL) {
    hak_page_attributes_note(at, bytes, advice == GUARD_INSTALL ? HAK_OS_GUARDED : HAK_OS_UNFORKED);
  }
  return (int)NEXT(madvise)((long)at, (long)bytes, advice, 0, 0);
}

HAK_EXPORT int prctl(int option, ...) {
  long argument[4];
  va_list arguments;
  va_start(arguments, option);
  for (int i = 0; i < 4; i++) { /* as in libc's: arguments that were not passed are ignored */
    argument[i] = va_arg(arguments, long);
  }
  va_end(arguments);
  bool filters = option == PR_SET_SECCOMP && !hak_os_shares_memory();
  int result = (int)NEXT(prctl)(option, argument[0], argument[1], argument[2], argument[3]);
  if (filters && result == 0) {
    hak_os_expect_filter(argument[0] == MODE_STRICT);
    if (argument[0] == MODE_STRICT) {
      hak_direct_confine();
    }
  }
  return result;
}

/* Libc has no function for seccomp. The filter may hold for all threads once the call returns, so it is expected
 * before. Without rules the call only asks whether the kernel knows its flags. */
static HAK_NOINLINE void before_seccomp(long operation, long rules) {
  bool sets = operation == SET_STRICT || (operation == SET_FILTER && rules != 0);
  if (sets && !hak_os_shares_memory()) {
    hak_os_expect_filter(operation == SET_STRICT);
  }
}

/* Jumps to the next function, because a call of vfork returns twice. */
HAK_EXPORT HAK_TAIL_CALL long hak_syscall(long number, long a, long b, long c, long d, long e LAST(long f)) {
  if (HAK_UNLIKELY(number == SYS_seccomp)) {
    before_seccomp(a, c);
  }
  return find_syscall()(number, a, b, c, d, e LAST(f));
}
