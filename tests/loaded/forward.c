/* Wraps the allocator, as users' wrappers do: passes each call on, and logs it to a stream, which allocates.
 *   by default      calls the next function, which dlsym finds; for a program or a preloaded library
 *   FORWARD_HANDLE  calls what dlsym finds by libc's handle; for a program
 *   FORWARD_LIBC    calls glibc's second names; for a program
 *   FORWARD_WRAP    receives the program's own calls by the linker's --wrap */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(FORWARD_WRAP)
#define OWN(name) __wrap_##name
#define TO(name) __real_##name
#elif defined(FORWARD_LIBC)
#define OWN(name) name
#define TO(name) __libc_##name
#else
#define OWN(name) name
#define TO(name) next()->name
#endif

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names, and glibc's */
void *OWN(malloc)(size_t bytes);
void *OWN(calloc)(size_t count, size_t bytes);
void *OWN(realloc)(void *block, size_t bytes);
void OWN(free)(void *block);

#if defined(FORWARD_WRAP) || defined(FORWARD_LIBC)
void *TO(malloc)(size_t bytes);
void *TO(calloc)(size_t count, size_t bytes);
void *TO(realloc)(void *block, size_t bytes);
void TO(free)(void *block);
#else
typedef struct {
  void *(*malloc)(size_t bytes);
  void *(*calloc)(size_t count, size_t bytes);
  void *(*realloc)(void *block, size_t bytes);
  void (*free)(void *block);
} Allocator;

/* Memory for dlsym while it looks for the next function. */
static _Alignas(16) char room[8192];
static size_t taken;

static void *early_malloc(size_t bytes) {
  size_t at = taken;
  taken += (bytes + 15) & ~(size_t)15;
  return taken <= sizeof room ? room + at : NULL;
}

static void *early_calloc(size_t count, size_t bytes) {
  return early_malloc(count * bytes);
}

static void *early_realloc(void *block, size_t bytes) {
  return block ? NULL : early_malloc(bytes);
}

static void early_free(void *block) {
  (void)block;
}

/* The first call comes before other threads exist. */
static const Allocator *next(void) {
  static const Allocator early = {early_malloc, early_calloc, early_realloc, early_free};
  static Allocator found;
  static enum { NO, SEARCHING, YES } state;
  if (state == NO) {
    state = SEARCHING;
#ifdef FORWARD_HANDLE
    void *from = dlopen("libc.so.6", RTLD_LAZY);
#else
    void *from = RTLD_NEXT;
#endif
    *(void **)&found.malloc = dlsym(from, "malloc");
    *(void **)&found.calloc = dlsym(from, "calloc");
    *(void **)&found.realloc = dlsym(from, "realloc");
    *(void **)&found.free = dlsym(from, "free");
    state = YES;
  }
  return state == YES ? &found : &early;
}
#endif

static bool is_early(const void *block) {
#if defined(FORWARD_WRAP) || defined(FORWARD_LIBC)
  (void)block;
  return false;
#else
  return (uintptr_t)block - (uintptr_t)room < sizeof room;
#endif
}

static void note(const char *call, const void *block, size_t bytes) {
  static FILE *_Atomic stream;
  static _Thread_local bool logging __attribute__((tls_model("initial-exec")));
  if (logging) {
    return;
  }
  logging = true;
  if (!stream) {
    stream = fopen("/dev/null", "w");
  }
  if (stream) {
    fprintf(stream, "%s %p %zu\n", call, block, bytes);
  }
  logging = false;
}

void *OWN(malloc)(size_t bytes) {
  void *block = TO(malloc)(bytes);
  note("malloc", block, bytes);
  return block;
}

void *OWN(calloc)(size_t count, size_t bytes) {
  void *block = TO(calloc)(count, bytes);
  note("calloc", block, count * bytes);
  return block;
}

void *OWN(realloc)(void *block, size_t bytes) {
  void *moved = TO(realloc)(block, bytes);
  note("realloc", moved, bytes);
  return moved;
}

void OWN(free)(void *block) {
  note("free", block, 0);
  if (!is_early(block)) {
    TO(free)(block);
  }
}
/* NOLINTEND(bugprone-reserved-identifier) */
