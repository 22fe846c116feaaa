/* Watches the removal of memory, as a cache of registered memory does: counts the calls, and informs a watcher. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

typedef void (*watcher_t)(void *at, size_t bytes);

static atomic_ulong discards, unmaps, moves;
static _Atomic watcher_t watcher;

#define NEXT(name, type) \
  static __typeof__(type) next; \
  if (!next) { \
    *(void **)&next = dlsym(RTLD_NEXT, name); \
  }

static void tell(void *at, size_t bytes) {
  watcher_t asked = atomic_load(&watcher);
  if (asked) {
    asked(at, bytes);
  }
}

int madvise(void *at, size_t bytes, int advice) {
  NEXT("madvise", int (*)(void *, size_t, int))
  if (advice == MADV_DONTNEED) {
    atomic_fetch_add(&discards, 1);
    tell(at, bytes);
  }
  return next(at, bytes, advice);
}

int munmap(void *at, size_t bytes) {
  NEXT("munmap", int (*)(void *, size_t))
  atomic_fetch_add(&unmaps, 1);
  tell(at, bytes);
  return next(at, bytes);
}

void *mremap(void *at, size_t bytes, size_t wanted, int flags, ...) {
  NEXT("mremap", void *(*)(void *, size_t, size_t, int, ...))
  va_list arguments;
  va_start(arguments, flags);
  void *to = va_arg(arguments, void *);
  va_end(arguments);
  atomic_fetch_add(&moves, 1);
  tell(at, bytes);
  if (flags & MREMAP_FIXED) {
    tell(to, wanted);
  }
  return next(at, bytes, wanted, flags, to);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  NEXT("mmap", void *(*)(void *, size_t, int, int, int, off_t))
  if (flags & MAP_FIXED) {
    tell(at, bytes);
  }
  return next(at, bytes, protection, flags, file, offset);
}

unsigned long hook_discards(void);
unsigned long hook_discards(void) {
  return atomic_load(&discards);
}

/* Calls of munmap and mremap. */
unsigned long hook_unmaps(void);
unsigned long hook_unmaps(void) {
  return atomic_load(&unmaps) + atomic_load(&moves);
}

void hook_watch(watcher_t asked);
void hook_watch(watcher_t asked) {
  atomic_store(&watcher, asked);
}
