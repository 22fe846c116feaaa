/* Under a limit of the address space, freed memory serves again. What waits returns if a request then fits. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

enum { MIB = 1 << 20, LEFT_BYTES = 9 * MIB, ALIGNED = 2 * MIB, MOST = 1000 };

static size_t address_space(void) {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void *request(size_t align, size_t bytes) {
  void *block = NULL;
  return align == 0 ? malloc(bytes) : posix_memalign(&block, align, bytes) == 0 ? block : NULL;
}

/* Use up the memory, free every second block, and allocate again. */
static void use_again(size_t align, size_t bytes) {
  static void *blocks[MOST];
  size_t count = 0;
  while (count < MOST && (blocks[count] = request(align, bytes)) != NULL) {
    count++;
  }
  CHECK(count > 1);
  for (size_t i = 0; i < count; i += 2) {
    free(blocks[i]);
  }
  CHECK((blocks[0] = request(align, bytes)) != NULL);
  for (size_t i = 0; i < count; i += i == 0 ? 1 : 2) {
    free(blocks[i]);
  }
}

int main(void) {
  free(malloc(1));
  struct rlimit limit, tight;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  tight = limit;
  tight.rlim_cur = address_space() + LEFT_BYTES;
  CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
  void *volatile large = malloc(5 * MIB); /* so that the next one needs its addresses and others */
  CHECK(large != NULL);
  free(large);
  CHECK((large = malloc(7 * MIB)) != NULL);
  free(large);
  use_again(0, 35000);
  use_again(ALIGNED, 100000);
  use_again(4096, 300000);
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  CHECK((large = malloc(35000)) != NULL);
  free(large);
  return 0;
}
