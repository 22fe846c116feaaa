/* Intercepts calls that change attributes of pages, since the program may free a block with such pages, and calls that
 * announce a sandbox. Direct system calls escape it. Each call goes on to the next function of its name, since other
 * libraries may intercept it too. The heap's own calls also pass here. */
#include "direct.h"
#include "hakmem.h"
#include "page_attributes.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { GUARD_INSTALL = 102 }; /* MADV_GUARD_INSTALL */

typedef long (*call_t)(long a, long b, long c, long d, long e);
typedef _Atomic(call_t) next_t;

/* Used if there is no next function: in a program without shared libraries. */
#define DIRECT(call) \
  static long direct_##call(long a, long b, long c, long d, long e) { \
    long result = hak_direct(SYS_##call, a, b, c, d, e); \
    errno = result < 0 ? (int)-result : errno; \
    return result < 0 ? -1 : result; \
  }
DIRECT(mprotect)
DIRECT(pkey_mprotect)
DIRECT(madvise)
DIRECT(prctl)

static next_t next_mprotect, next_pkey_mprotect, next_madvise, next_prctl;

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

__attribute__((constructor(101))) static void find_all(void) {
  (void)NEXT(mprotect);
  (void)NEXT(pkey_mprotect);
  (void)NEXT(madvise);
  (void)NEXT(prctl);
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

/* A program sets a filter by one of these calls. Only a privileged process can do it by seccomp alone. */
HAK_EXPORT int prctl(int option, ...) {
  long argument[4];
  va_list arguments;
  va_start(arguments, option);
  for (int i = 0; i < 4; i++) { /* as in libc's: arguments that were not passed are ignored */
    argument[i] = va_arg(arguments, long);
  }
  va_end(arguments);
  if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) {
    hak_os_expect_filter();
  }
  return (int)NEXT(prctl)(option, argument[0], argument[1], argument[2], argument[3]);
}
