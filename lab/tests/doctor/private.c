/* A library with a malloc of its own. */
#include <stddef.h>

static char heap[1 << 16];
static size_t used;

void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *block, size_t bytes);
void free(void *block);
void *answer(void);

void *malloc(size_t bytes) {
  void *block = heap + used;
  used += (bytes + 15) & ~(size_t)15;
  return block;
}
void *calloc(size_t count, size_t bytes) {
  return malloc(count * bytes);
}
void *realloc(void *block, size_t bytes) {
  (void)block;
  return malloc(bytes);
}
void free(void *block) {
  (void)block;
}
void *answer(void) {
  return malloc(7);
}
