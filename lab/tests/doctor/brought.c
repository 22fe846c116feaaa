/* A program that contains another allocator under prefixed names, as many programs contain jemalloc. */
#include <stdio.h>
#include <stdlib.h>

static char heap[4096];

__attribute__((noinline, used)) void *je_malloc(size_t bytes);
void *je_malloc(size_t bytes) {
  return bytes < sizeof heap ? heap : NULL;
}

int main(int count, char **words) {
  (void)words;
  char *volatile other = malloc(16);
  printf("%s%p %p\n", count > 100 ? "<jemalloc>: " : "", je_malloc(10), (void *)other);
  free(other);
  return 0;
}
