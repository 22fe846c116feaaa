/* The standard names. malloc and free are the fast paths themselves; the others call the hak_ functions. */
#include "hakmem.h"

#include "fast.h"
#include "process.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>

/* Tells foreign.c that callers reach this library under the standard names. */
extern const bool hak_override_present;
const bool hak_override_present = true;

HAK_EXPORT HAK_ENTRY void *malloc(size_t bytes) {
  return hak_fast_alloc(bytes);
}

HAK_EXPORT HAK_ENTRY void free(void *block) {
  hak_fast_free(block);
}

#define FORWARD(type, name, parameters, ...) FORWARD_AS(name, type, name, parameters, __VA_ARGS__)
#define FORWARD_AS(alias, type, name, parameters, ...) \
  HAK_EXPORT type alias parameters; \
  HAK_EXPORT type alias parameters { \
    return hak_##name(__VA_ARGS__); \
  }
FORWARD(void *, calloc, (size_t count, size_t bytes), count, bytes)
FORWARD(void *, realloc, (void *block, size_t bytes), block, bytes)
FORWARD(void *, reallocarray, (void *block, size_t count, size_t bytes), block, count, bytes)
FORWARD(void, free_sized, (void *block, size_t bytes), block, bytes)
FORWARD(void, free_aligned_sized, (void *block, size_t alignment, size_t bytes), block, alignment, bytes)
FORWARD(void *, aligned_alloc, (size_t alignment, size_t bytes), alignment, bytes)
FORWARD(void *, memalign, (size_t alignment, size_t bytes), alignment, bytes)
FORWARD(int, posix_memalign, (void **block, size_t alignment, size_t bytes), block, alignment, bytes)
FORWARD(void *, valloc, (size_t bytes), bytes)
FORWARD(void *, pvalloc, (size_t bytes), bytes)
FORWARD(size_t, malloc_usable_size, (void *block), block)
FORWARD_AS(malloc_trim, int, trim, (size_t keep_bytes), keep_bytes)
#ifdef __GLIBC__
/* glibc's other names for these functions, which old programs and plugins mix with the standard ones. */
FORWARD_AS(cfree, void, free, (void *block), block)
FORWARD_AS(__libc_free, void, free, (void *block), block)
FORWARD_AS(__libc_malloc, void *, malloc, (size_t bytes), bytes)
FORWARD_AS(__libc_calloc, void *, calloc, (size_t count, size_t bytes), count, bytes)
FORWARD_AS(__libc_realloc, void *, realloc, (void *block, size_t bytes), block, bytes)
FORWARD_AS(__libc_memalign, void *, memalign, (size_t alignment, size_t bytes), alignment, bytes)
FORWARD_AS(__libc_valloc, void *, valloc, (size_t bytes), bytes)
FORWARD_AS(__libc_pvalloc, void *, pvalloc, (size_t bytes), bytes)

/* M_TRIM_THRESHOLD is the option RETAIN. As with glibc, a value below 0 means that a free gives nothing back. */
static int retain(int value) {
  int saved = errno;
  char text[24];
  hak_text_t number = hak_text_on(text, sizeof text);
  hak_text_put(&number, "%zu", value < 0 ? (size_t)HAK_RETAIN_ALL : (size_t)value);
  int failed = hak_option_set("RETAIN", text);
  errno = saved;
  return failed == 0;
}

/* Returns 1 like glibc, since programs take 0 for a failure. Most parameters tune bins, brk and arenas, which do not
 * exist here, and have no effect. Returns 0 for parameters that <malloc.h> lacks. */
HAK_EXPORT int mallopt(int parameter, int value) {
  enum { MXFAST_MAX = 80 * sizeof(size_t) / 4 };
  if (parameter == M_TRIM_THRESHOLD) {
    return retain(value);
  }
  if (parameter == M_MXFAST) {
    return value >= 0 && value <= MXFAST_MAX;
  }
  return parameter >= M_ARENA_MAX && parameter <= M_KEEP && parameter != 0;
}

/* Every library's pthread_atfork calls this, perhaps before this library's constructor runs. It is weak, since a
 * program without shared libraries uses libc's own. */
HAK_EXPORT __attribute__((weak)) int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                                                       void *module) {
  hak_register_t next;
  *(void **)&next = dlsym(RTLD_NEXT, "__register_atfork");
  return next ? hak_process_register(next, prepare, parent, child, module) : ENOMEM;
}
#endif
