/* System calls that no other library can wrap. os.c and its parts stand above. */
#include "direct.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(__riscv)
#include <unistd.h>
#endif

static _Thread_local bool confined __attribute__((tls_model("initial-exec")));

void hak_direct_confine(void) {
  confined = true;
}

bool hak_direct_is_confined(void) {
  return HAK_UNLIKELY(confined);
}

long hak_direct_call(long number, const long argument[6]) {
  if (HAK_UNLIKELY(confined) && number != SYS_read && number != SYS_write) {
    return -EPERM;
  }
#ifdef __x86_64__
  register long r10 __asm__("r10") = argument[3], r8 __asm__("r8") = argument[4], r9 __asm__("r9") = argument[5];
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(argument[0]), "S"(argument[1]), "d"(argument[2]), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = argument[0], x1 __asm__("x1") = argument[1];
  register long x2 __asm__("x2") = argument[2], x3 __asm__("x3") = argument[3], x4 __asm__("x4") = argument[4];
  register long x5 __asm__("x5") = argument[5];
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#elif defined(__riscv)
  register long a7 __asm__("a7") = number, a0 __asm__("a0") = argument[0], a1 __asm__("a1") = argument[1];
  register long a2 __asm__("a2") = argument[2], a3 __asm__("a3") = argument[3], a4 __asm__("a4") = argument[4];
  register long a5 __asm__("a5") = argument[5];
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
  return a0;
#else /* elsewhere by libc's function */
  int saved = errno;
  long result = syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
  result = result == -1 ? -errno : result;
  errno = saved;
  return result;
#endif
}

long hak_direct_errno(long result) {
  if (result < 0 && result > -4096) {
    errno = (int)-result;
    return -1;
  }
  return result;
}

size_t hak_direct_read(const char *name, void *to, size_t bytes) {
  char *buffer = to;
  size_t length = 0;
  long fd = hak_direct(SYS_openat, AT_FDCWD, (long)name, O_RDONLY | O_CLOEXEC), got = 1;
  while (fd >= 0 && length + 1 < bytes && got > 0) {
    got = hak_direct(SYS_read, fd, (long)(buffer + length), (long)(bytes - 1 - length));
    length += got > 0 ? (size_t)got : 0;
  }
  if (fd >= 0) {
    hak_direct(SYS_close, fd);
  }
  buffer[length] = '\0';
  return length;
}
