/* free of pages that the program mapped itself. */
#include <sys/mman.h>

#include "crime.h"

int main(void) {
  give(take(64));
  void *pages = mmap(NULL, MAPPING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  announce(pages);
  hak_free(pages);
  drain(64);
  return 0;
}
