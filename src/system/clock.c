/* The clock from the kernel's vDSO, which no other library can wrap. Part of direct.h, the lowest layer. */
#include "direct.h"

#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

/* The kernel maps the vDSO into each process. Its functions read the clock without a system call. Libc's clock_gettime
 * calls the same function, but other libraries may define that name and allocate there. */

typedef int (*clock_function_t)(clockid_t clock, struct timespec *now);

#ifdef __aarch64__
static const char name[] = "__kernel_clock_gettime";
#else
static const char name[] = "__vdso_clock_gettime";
#endif

static clock_function_t find(void) {
  uintptr_t base = hak_auxiliary(AT_SYSINFO_EHDR);
  return base ? (clock_function_t)hak_object_symbol(base, name) : NULL; /* NOLINT(performance-no-int-to-ptr) */
}

static int by_system_call(clockid_t clock, struct timespec *now) {
  return (int)hak_direct(SYS_clock_gettime, clock, (long)now);
}

int hak_clock(clockid_t clock, struct timespec *now) {
  static _Atomic(clock_function_t) function;
  clock_function_t read = atomic_load_explicit(&function, memory_order_relaxed);
  if (HAK_UNLIKELY(!read)) {
    read = find();
    read = read ? read : by_system_call;
    atomic_store_explicit(&function, read, memory_order_relaxed);
  }
  int failed = read(clock, now);
  return failed && read != by_system_call ? by_system_call(clock, now) : failed;
}
