/* Watches what is taken away, as a cache of registered memory does: counts the calls, and says so at the end. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

static atomic_ulong discards, unmaps;

int madvise(void *at, size_t bytes, int advice) {
  static int (*next)(void *, size_t, int);
  if (!next) {
    *(void **)&next = dlsym(RTLD_NEXT, "madvise");
  }
  atomic_fetch_add(&discards, advice == MADV_DONTNEED);
  return next(at, bytes, advice);
}

int munmap(void *at, size_t bytes) {
  static int (*next)(void *, size_t);
  if (!next) {
    *(void **)&next = dlsym(RTLD_NEXT, "munmap");
  }
  atomic_fetch_add(&unmaps, 1);
  return next(at, bytes);
}

unsigned long hook_discards(void);
unsigned long hook_discards(void) {
  return atomic_load(&discards);
}
