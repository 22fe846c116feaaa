// Finds the allocator behind the recorder. dlsym may allocate, so during the search blocks come from a reserve, which
// is never freed and not recorded.
#include "next.h"
#include "recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

enum { RESERVE_BYTES = 65536, RESERVE_ALIGNMENT = 16 };

static _Alignas(RESERVE_ALIGNMENT) char reserve[RESERVE_BYTES];
static _Atomic size_t reserve_used;
static const void *allocator_base; // base address of the file with malloc
static void *early_malloc(size_t bytes);
static void *early_calloc(size_t count, size_t bytes);
static void *early_realloc(void *block, size_t bytes);
static void early_free(void *block);
static void *early_aligned(size_t alignment, size_t bytes);
static int early_posix(void **block, size_t alignment, size_t bytes);
static void *early_page(size_t bytes);

next_t next = {.malloc = early_malloc,
               .free = early_free,
               .calloc = early_calloc,
               .realloc = early_realloc,
               .memalign = early_aligned,
               .aligned_alloc = early_aligned,
               .posix_memalign = early_posix,
               .valloc = early_page,
               .pvalloc = early_page};
static __thread bool finding;
__thread bool next_looking;

static void *behind_this_library(const char *name) {
  return dlsym(RTLD_NEXT, name);
}

static next_search_t *search = behind_this_library;

static void *reserve_take(size_t bytes) {
  size_t whole = (bytes + 2 * RESERVE_ALIGNMENT - 1) & ~(size_t)(RESERVE_ALIGNMENT - 1);
  size_t at = bytes < RESERVE_BYTES ? atomic_fetch_add(&reserve_used, whole) : RESERVE_BYTES;
  if (at + whole > RESERVE_BYTES) {
    errno = ENOMEM;
    return NULL;
  }
  recorder_filter_add(reserve + at, UINT8_MAX); // so that free checks it
  return reserve + at;
}

bool next_is_reserve(const void *block) {
  return (uintptr_t)block - (uintptr_t)reserve < RESERVE_BYTES;
}

static void *early_malloc(size_t bytes) {
  if (finding)
    return reserve_take(bytes);
  next_find();
  return next.malloc(bytes);
}

static void *early_calloc(size_t count, size_t bytes) {
  if (finding)
    return count == 0 || bytes <= RESERVE_BYTES / count ? reserve_take(count * bytes) : NULL;
  next_find();
  return next.calloc(count, bytes);
}

static void *early_realloc(void *block, size_t bytes) {
  if (!finding) {
    next_find();
    return next.realloc(block, bytes);
  }
  void *moved = reserve_take(bytes);
  if (moved != NULL && next_is_reserve(block)) {
    size_t left = (size_t)(reserve + RESERVE_BYTES - (char *)block);
    memmove(moved, block, bytes < left ? bytes : left);
  }
  return moved;
}

static void early_free(void *block) {
  if (finding || next_is_reserve(block))
    return;
  next_find();
  next.free(block);
}

static void *early_aligned(size_t alignment, size_t bytes) {
  next_find();
  return next.memalign(alignment, bytes);
}

static int early_posix(void **block, size_t alignment, size_t bytes) {
  next_find();
  return next.posix_memalign(block, alignment, bytes);
}

static void *early_page(size_t bytes) {
  next_find();
  return next.valloc(bytes);
}

static const void *base_of(const void *symbol) {
  Dl_info info;
  return symbol != NULL && dladdr(symbol, &info) != 0 ? info.dli_fbase : NULL;
}

static void find(void *at, const char *name) {
  void *symbol = search(name);
  if (symbol != NULL)
    memcpy(at, &symbol, sizeof symbol);
}

static void free_without_size(void *block, size_t bytes) {
  (void)bytes;
  next.free(block);
}

static void free_without_sizes(void *block, size_t alignment, size_t bytes) {
  (void)alignment;
  (void)bytes;
  next.free(block);
}

void next_find(void) {
  if (finding || next.malloc != early_malloc)
    return;
  int error = errno;
  finding = true;
  find(&next.calloc, "calloc");
  find(&next.realloc, "realloc");
  find(&next.free, "free");
  find(&next.malloc, "malloc");
  finding = false; // messages about missing functions need blocks from the allocator
  next_looking = true;
  next.free_sized = free_without_size;
  next.free_aligned_sized = free_without_sizes;
  find(&next.memalign, "memalign");
  find(&next.aligned_alloc, "aligned_alloc");
  find(&next.posix_memalign, "posix_memalign");
  find(&next.valloc, "valloc");
  find(&next.pvalloc, "pvalloc");
  find(&next.free_sized, "free_sized");
  find(&next.free_aligned_sized, "free_aligned_sized");
  allocator_base = base_of((const void *)next.malloc);
  dlerror();
  dlerror(); // the second call frees the message of the first
  next_looking = false;
  errno = error;
}

void next_find_by(next_search_t *how) {
  search = how;
  next_find();
}

void next_file(char *path, size_t bytes) {
  Dl_info info;
  next_find();
  const char *name = dladdr((const void *)next.malloc, &info) != 0 && info.dli_fname ? info.dli_fname : "";
  strncpy(path, name, bytes - 1);
  path[bytes - 1] = '\0';
}

void *next_operator(const char *mangled) {
  static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
  void *symbol = search(mangled);
  // The library may have been loaded later and privately, as by a module of Python.
  for (size_t i = 0; symbol == NULL && i < sizeof libraries / sizeof *libraries; i++) {
    void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) {
      symbol = dlsym(library, mangled);
      dlclose(library);
    }
  }
  return symbol;
}

bool next_is_allocators(const void *symbol) {
  return symbol != NULL && base_of(symbol) == allocator_base;
}
