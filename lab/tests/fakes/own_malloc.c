/* A program with a malloc of its own. VISIBILITY: "default" exports it, as usual; "hidden" keeps it private. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Alignas(16) char heap[1 << 20];
static size_t used;

__attribute__((visibility(VISIBILITY))) void *malloc(size_t bytes) {
  void *block = heap + used;
  used += (bytes + 15) & ~(size_t)15;
  return block;
}
__attribute__((visibility(VISIBILITY))) void free(void *block) {
  (void)block;
}
__attribute__((visibility(VISIBILITY))) void *calloc(size_t count, size_t bytes) {
  return malloc(count * bytes);
}
__attribute__((visibility(VISIBILITY))) void *realloc(void *block, size_t bytes) {
  void *moved = malloc(bytes);
  return block ? memcpy(moved, block, bytes) : moved;
}

int main(void) {
  char *volatile text = malloc(16);
  strcpy(text, "ops 1000");
  puts(text);
  free(text);
  return 0;
}
