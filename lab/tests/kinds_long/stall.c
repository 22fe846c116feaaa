// Preloaded: the STALL_AT-th malloc of the process takes 300 ms.
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes) {
  static atomic_long calls;
  static atomic_long at;
  if (at == 0) {
    const char *text = getenv("STALL_AT");
    at = text != NULL ? atol(text) : -1;
  }
  if (atomic_fetch_add(&calls, 1) == at)
    usleep(300000);
  return __libc_malloc(bytes);
}
