/* A watcher, preloaded before or behind the library, sees each page that is given back exactly once, and the program's
 * own calls. The heap's calls lie between two calls of getppid, so that once.py can count them from outside. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { BLOCKS = 4000, BYTES = 8000, OWN = 10, LARGE = 60 };

static void use_small(void) {
  static char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK((blocks[i] = malloc(BYTES)) != NULL);
    memset(blocks[i], 1, BYTES);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    free(blocks[i]);
  }
  malloc_trim(0);
}

static void use_large(void) {
  char *grown = NULL;
  for (size_t i = 1; i <= LARGE; i++) {
    char *block = malloc(i << 18);
    CHECK(block != NULL && (grown = realloc(grown, i << 21)) != NULL);
    memset(block, 2, i << 18);
    grown[(i << 21) - 1] = 1;
    free(block);
  }
  free(grown);
  malloc_trim(0);
}

int main(void) {
  unsigned long (*discards)(void), (*unmaps)(void);
  *(void **)&discards = dlsym(RTLD_DEFAULT, "hook_discards");
  *(void **)&unmaps = dlsym(RTLD_DEFAULT, "hook_unmaps");
  CHECK(discards != NULL && unmaps != NULL);
  getppid();
  unsigned long before = discards(), unmaps_before = unmaps();
  use_small();
  CHECK(discards() > before); /* the discarded pages were announced */
  use_large();
  unsigned long seen = discards() - before, unmaps_seen = unmaps() - unmaps_before;
  getppid();
  CHECK(unmaps_seen > 0);
  printf("%lu %lu\n", seen, unmaps_seen);
  char *pages = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  before = discards();
  for (int i = 0; i < OWN; i++) {
    CHECK(madvise(pages, 4096, MADV_DONTNEED) == 0);
  }
  CHECK(discards() == before + OWN);
  return 0;
}
