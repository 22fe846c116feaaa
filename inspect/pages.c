#include "pages.h"

#include <sys/mman.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

hak_pages_t hak_pages_shut(void *at, size_t bytes) {
  if (madvise(at, bytes, MADV_GUARD_INSTALL) == 0) {
    return HAK_PAGES_ADVISED;
  }
  madvise(at, bytes, MADV_DONTNEED);
  return mprotect(at, bytes, PROT_NONE) == 0 ? HAK_PAGES_PROTECTED : HAK_PAGES_OPEN;
}

bool hak_pages_open(void *at, size_t bytes, hak_pages_t how) {
  switch (how) {
  case HAK_PAGES_ADVISED:
    return madvise(at, bytes, MADV_GUARD_REMOVE) == 0;
  case HAK_PAGES_PROTECTED:
    return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
  default:
    return true;
  }
}
