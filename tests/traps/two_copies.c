/* Two copies of the library in a process, each under the standard names. The copy to which the names resolve serves all
 * calls. Both copies can free the blocks of the other one. argument: the file of the other copy; without, it is the
 * next one after the program. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "trap.h"

static void *handle;

static void *other(const char *name) {
  void *function = dlsym(handle, name);
  CHECK(function != NULL);
  return function;
}
#define OTHER(name) ((__typeof__(&(name)))other(#name))

int main(int count, char **arguments) {
  static const size_t sizes[] = {0, 1, 100, 5000, 40000, 200 << 10, 3 << 20};
  trap_watchdog(60);
  handle = count > 1 ? dlopen(arguments[1], RTLD_LAZY | RTLD_NOLOAD) : RTLD_NEXT;
  CHECK(count == 1 || handle != NULL);
  CHECK(OTHER(malloc) != malloc && OTHER(hak_free) != HAK(hak_free));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t bytes = sizes[i];
    char *blocks[] = {malloc(bytes),
                      OTHER(malloc)(bytes),
                      OTHER(calloc)(1, bytes),
                      OTHER(memalign)(64, bytes),
                      OTHER(hak_malloc)(bytes),
                      HAK(hak_malloc)(bytes),
                      OTHER(malloc)(bytes),
                      malloc(bytes)};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
      CHECK(blocks[k] != NULL);
      memset(blocks[k], (int)k, bytes);
      CHECK(malloc_usable_size(blocks[k]) >= bytes && OTHER(malloc_usable_size)(blocks[k]) >= bytes);
      blocks[k] = (k % 2 ? realloc : OTHER(realloc))(blocks[k], 2 * bytes + 1);
      CHECK(blocks[k] != NULL && (bytes == 0 || blocks[k][bytes - 1] == (char)k));
      (k % 3 == 0 ? free : k % 3 == 1 ? OTHER(free) : OTHER(hak_free))(blocks[k]);
    }
  }
  return 0;
}
