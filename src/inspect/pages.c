/* Pages without access: by advice where the kernel supports it, else by protection. */
#include "pages.h"

#include "system/system.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

bool hak_pages_read(uintptr_t at, void *to, size_t bytes) {
  if (hak_os_is_filtered()) {
    return false;
  }
  struct iovec into = {to, bytes}, from = {(void *)at, bytes}; /* NOLINT(performance-no-int-to-ptr) */
  return hak_direct(SYS_process_vm_readv, hak_direct(SYS_getpid), (long)&into, 1, (long)&from, 1) == (long)bytes;
}

/* Discard the content first, by a call that other libraries may watch. */
hak_pages_t hak_pages_shut(void *at, size_t bytes) {
  hak_os_discard(at, bytes);
  static _Atomic bool tried, works;
  if ((works || !tried) && !hak_os_is_filtered() &&
      hak_direct(SYS_madvise, (long)at, (long)bytes, MADV_GUARD_INSTALL) == 0) {
    if (!tried) {
      char byte; /* an emulator may report success for advice that it does not know */
      works = !hak_pages_read((uintptr_t)at, &byte, 1);
      tried = true;
    }
    if (works) {
      return HAK_PAGES_ADVISED;
    }
  }
  return hak_direct(SYS_mprotect, (long)at, (long)bytes, PROT_NONE) == 0 ? HAK_PAGES_PROTECTED : HAK_PAGES_OPEN;
}

bool hak_pages_open(void *at, size_t bytes, hak_pages_t how) {
  if (how == HAK_PAGES_ADVISED) {
    return !hak_os_is_filtered() && hak_direct(SYS_madvise, (long)at, (long)bytes, MADV_GUARD_REMOVE) == 0;
  }
  return how == HAK_PAGES_OPEN || hak_direct(SYS_mprotect, (long)at, (long)bytes, PROT_READ | PROT_WRITE) == 0;
}
