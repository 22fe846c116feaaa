/* Imitates a kernel with pages of HAK_TEST_PAGE_BYTES, which are larger than the real ones. It refuses and rounds
 * arguments as such a kernel would, and every mapping begins at such a page. It intercepts the core's calls of libc
 * (--wrap). */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "check.h"

enum { PAGE = HAK_TEST_PAGE_BYTES };

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
int __real_munmap(void *at, size_t bytes);
long __real_hak_direct_call(long number, const long argument[6]);
long __wrap_hak_direct_call(long number, const long argument[6]);
int __real_madvise(void *at, size_t bytes, int advice);
void *__real_mremap(void *at, size_t bytes, size_t wanted, int flags, ...);
unsigned long __real_hak_auxiliary(unsigned long type);

unsigned long __wrap_hak_auxiliary(unsigned long type) {
  return type == AT_PAGESZ ? PAGE : __real_hak_auxiliary(type);
}

static size_t whole(size_t bytes) {
  return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static bool is_page(const void *at) {
  return (uintptr_t)at % PAGE == 0;
}

static int refused(void) {
  errno = EINVAL;
  return -1;
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
    return is_page(at) ? __real_mmap(at, whole(bytes), protection, flags, file, offset) : (void *)(intptr_t)refused();
  }
  size_t wide = whole(bytes) + PAGE;
  char *found = __real_mmap((char *)at - ((uintptr_t)at % PAGE), whole(bytes), protection, flags, file, offset);
  if (found == MAP_FAILED || is_page(found)) {
    return found;
  }
  __real_munmap(found, whole(bytes));
  found = __real_mmap(NULL, wide, protection, flags, file, offset);
  if (found == MAP_FAILED) {
    return found;
  }
  size_t before = -(uintptr_t)found % PAGE;
  if (before) {
    __real_munmap(found, before);
  }
  __real_munmap(found + before + whole(bytes), PAGE - before);
  return found + before;
}

int __wrap_munmap(void *at, size_t bytes) {
  return is_page(at) ? __real_munmap(at, whole(bytes)) : refused();
}

/* The first arguments of both madvise and mprotect are an address and a length. */
long __wrap_hak_direct_call(long number, const long argument[6]) {
  if (number != SYS_mprotect && number != SYS_madvise) {
    return __real_hak_direct_call(number, argument);
  }
  const long wide[6] = {argument[0], (long)whole((size_t)argument[1]), argument[2]};
  return (uintptr_t)argument[0] % PAGE == 0 ? __real_hak_direct_call(number, wide) : -EINVAL;
}

int __wrap_madvise(void *at, size_t bytes, int advice) {
  return is_page(at) ? __real_madvise(at, whole(bytes), advice) : refused();
}

/* Never moves the mapping: the kernel would choose an address for its own, smaller pages. */
void *__wrap_mremap(void *at, size_t bytes, size_t wanted, int flags, ...) {
  return is_page(at) ? __real_mremap(at, whole(bytes), whole(wanted), flags & ~MREMAP_MAYMOVE)
                     : (void *)(intptr_t)refused();
}
