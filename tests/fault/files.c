/* The calls that are made by number, and the one that tells what is resident. */
#include "inject.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>

/* The names are the linker's: see inject.c. */
long __real_syscall(long number, ...);
int __real_mincore(void *at, size_t bytes, unsigned char *resident);
long __wrap_syscall(long number, ...);
int __wrap_mincore(void *at, size_t bytes, unsigned char *resident);

static bool fails(long number) {
  static const struct {
    long number;
    const char *kind;
    int error;
  } calls[] = {{SYS_openat, "openat", EMFILE},
               {SYS_read, "read", EIO},
               {SYS_pread64, "pread64", EIO},
               {SYS_write, "write", ENOSPC}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    if (calls[i].number == number && inject_fails(calls[i].kind)) {
      errno = calls[i].error;
      return true;
    }
  }
  return false;
}

/* Six arguments are read whatever was passed; what was not is not looked at by the kernel. */
long __wrap_syscall(long number, ...) {
  long argument[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; i++) {
    argument[i] = va_arg(arguments, long); /* NOLINT(clang-analyzer-valist.Uninitialized): it is started above */
  }
  va_end(arguments);
  return fails(number)
             ? -1
             : __real_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}

int __wrap_mincore(void *at, size_t bytes, unsigned char *resident) {
  return inject_fails("mincore") ? -1 : __real_mincore(at, bytes, resident);
}
