/* A watcher that is preloaded, before the library or behind it, sees each page that goes back, once, and the program's
 * own calls. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "check.h"

enum { BLOCKS = 4000, BYTES = 8000, OWN = 10 };

int main(void) {
  static char *blocks[BLOCKS];
  unsigned long (*seen)(void);
  *(void **)&seen = dlsym(RTLD_DEFAULT, "hook_discards");
  CHECK(seen != NULL);
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK((blocks[i] = malloc(BYTES)) != NULL);
    memset(blocks[i], 1, BYTES);
  }
  unsigned long before = seen();
  for (size_t i = 0; i < BLOCKS; i++) {
    free(blocks[i]);
  }
  malloc_trim(0);
  CHECK(seen() > before); /* what went back was announced */
  char *pages = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  before = seen();
  for (int i = 0; i < OWN; i++) {
    CHECK(madvise(pages, 4096, MADV_DONTNEED) == 0);
  }
  CHECK(seen() == before + OWN);
  return 0;
}
