/* A library that contains another allocator under names of its own, and 16 MiB of that allocator's memory. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int private_je_malloc(int verbose);
int private_je_malloc(int verbose) {
  enum { BYTES = 16 << 20 };
  void *region = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED)
    return 1;
  memset(region, 1, BYTES);
  return verbose && fputs("<jemalloc>: Error in munmap()", stderr);
}
