// Preloaded before any allocator, this library counts the calls that allocate or resize a block, and the bytes that
// they ask for. The counters lie in the file that HAK_COUNT names: all processes of a run share them, so neither fork,
// exec nor a sudden end loses any.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct counts {
  _Atomic uint64_t calls, bytes;
} counts_t;

static counts_t early; // until the file is mapped
static counts_t *counts = &early;

// Functions of an allocator, and C++'s operators, may call each other: only the outermost counts.
static _Thread_local int depth __attribute__((tls_model("initial-exec")));

static void leave(const int *outer) {
  depth = *outer;
}

#define ENTER __attribute__((cleanup(leave), unused)) int outer = depth++;

static void *counted(void *block, size_t bytes) {
  if (block != NULL && depth == 1) {
    atomic_fetch_add_explicit(&counts->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->bytes, bytes, memory_order_relaxed);
  }
  return block;
}

__attribute__((constructor)) static void map_counts(void) {
  const char *path = getenv("HAK_COUNT");
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  counts_t *shared = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) {
    close(file);
  }
  if (shared != MAP_FAILED) {
    atomic_fetch_add(&shared->calls, early.calls);
    atomic_fetch_add(&shared->bytes, early.bytes);
    counts = shared;
  }
}

// The functions that this library stands before. Of the operators, those are NULL that no library behind it has.
typedef void *(*make_t)(size_t bytes, size_t second, const void *third);
#define OPERATORS(each) \
  each(_Znwm) each(_Znam) each(_ZnwmRKSt9nothrow_t) each(_ZnamRKSt9nothrow_t) each(_ZnwmSt11align_val_t) \
      each(_ZnamSt11align_val_t) each(_ZnwmSt11align_val_tRKSt9nothrow_t) each(_ZnamSt11align_val_tRKSt9nothrow_t)
#define FUNCTIONS(each) \
  each(calloc) each(realloc) each(memalign) each(aligned_alloc) each(posix_memalign) each(valloc) each(pvalloc) \
      each(malloc)
#define MAKER(name) make_t name;
static struct {
  OPERATORS(MAKER)
  void *(*malloc)(size_t), *(*calloc)(size_t, size_t), *(*realloc)(void *, size_t), *(*memalign)(size_t, size_t);
  void *(*aligned_alloc)(size_t, size_t), *(*valloc)(size_t), *(*pvalloc)(size_t);
  int (*posix_memalign)(void **, size_t, size_t);
} next;

// dlsym may allocate, and can do without. Volatile: by its header, dlsym never calls back.
static _Thread_local volatile bool finding __attribute__((tls_model("initial-exec")));
static _Atomic bool known;

// All are looked up at the first call. A later caller may be glibc's dlerror, which writes to its freed state if a
// lookup comes between. The last lookup succeeds, and so takes back the errors of the others.
static bool find_all(void) {
  if (finding) {
    return false;
  }
  finding = true;
  void *found;
#define FIND(name) \
  found = dlsym(RTLD_NEXT, #name); \
  memcpy(&next.name, &found, sizeof found);
  OPERATORS(FIND)
  FUNCTIONS(FIND)
  finding = false;
  known = true;
  return true;
}

#define NEXT \
  ENTER \
  if (!known && !find_all()) \
  return 0

EXPORT void *malloc(size_t bytes) {
  NEXT;
  return counted(next.malloc(bytes), bytes);
}

EXPORT void *calloc(size_t count, size_t bytes) {
  NEXT;
  return counted(next.calloc(count, bytes), count * bytes);
}

EXPORT void *realloc(void *block, size_t bytes) {
  NEXT;
  return counted(next.realloc(block, bytes), bytes);
}

EXPORT void *reallocarray(void *block, size_t count, size_t bytes) {
  size_t product;
  if (__builtin_mul_overflow(count, bytes, &product)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(block, product);
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
  NEXT;
  return counted(next.memalign(alignment, bytes), bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  NEXT;
  return counted(next.aligned_alloc(alignment, bytes), bytes);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t bytes) {
  NEXT;
  int error = next.posix_memalign(block, alignment, bytes);
  if (error == 0) {
    counted(*block, bytes);
  }
  return error;
}

EXPORT void *valloc(size_t bytes) {
  NEXT;
  return counted(next.valloc(bytes), bytes);
}

EXPORT void *pvalloc(size_t bytes) {
  NEXT;
  return counted(next.pvalloc(bytes), bytes);
}

// strdup and strndup of the C library call malloc; those of an allocator may not.
static char *copied(const char *text, size_t length) {
  char *copy = malloc(length + 1);
  if (copy != NULL) {
    memcpy(copy, text, length);
    copy[length] = '\0';
  }
  return copy;
}

EXPORT char *strdup(const char *text) {
  return copied(text, strlen(text));
}

EXPORT char *strndup(const char *text, size_t most) {
  return copied(text, strnlen(text, most));
}

// Every operator is called with the arguments of the longest one, since further registers do no harm. One that cannot
// be found belongs to a library that was loaded privately, and malloc takes its place.
static void *make(make_t made, size_t alignment, size_t bytes, size_t second, const void *third) {
  if (made != NULL) {
    ENTER
    return counted(made(bytes, second, third), bytes);
  }
  void *block = alignment ? memalign(alignment, bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
  return block ? block : (abort(), NULL);
}

#define MAKE(name, alignment) \
  EXPORT void *name(size_t bytes, size_t second, const void *third); \
  EXPORT void *name(size_t bytes, size_t second, const void *third) { \
    return make(known || find_all() ? next.name : NULL, alignment, bytes, second, third); \
  }
MAKE(_Znwm, 0)
MAKE(_Znam, 0)
MAKE(_ZnwmRKSt9nothrow_t, 0)
MAKE(_ZnamRKSt9nothrow_t, 0)
MAKE(_ZnwmSt11align_val_t, second)
MAKE(_ZnamSt11align_val_t, second)
MAKE(_ZnwmSt11align_val_tRKSt9nothrow_t, second)
MAKE(_ZnamSt11align_val_tRKSt9nothrow_t, second)
