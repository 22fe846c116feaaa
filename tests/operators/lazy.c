/* Wraps realloc, and looks up the next one at the first call: many libraries do. */
#include <dlfcn.h>
#include <stddef.h>

void *realloc(void *block, size_t bytes) {
  static void *(*next)(void *, size_t);
  if (!next) {
    *(void **)&next = dlsym(RTLD_NEXT, "realloc");
  }
  return next(block, bytes);
}
