// Survivors scattered over memory that was freed around them: 200 blocks hold as many pages.
#include <stdlib.h>
#include <string.h>

enum { COUNT = 8000, ONE_IN = 40 };
static void *passing[COUNT];

__attribute__((noinline)) void *keep(size_t bytes) {
  return memset(malloc(bytes), 1, bytes);
}
__attribute__((noinline)) void *pass(size_t bytes) {
  return memset(malloc(bytes), 1, bytes);
}
__attribute__((noinline)) void *resize(void *block, size_t bytes) {
  return realloc(block, bytes);
}

int main(void) {
  for (int i = 0; i < COUNT; i++) {
    passing[i] = pass(100);
    if (i % ONE_IN == 0) {
      keep(100);
    }
  }
  for (int i = 0; i < COUNT; i++) {
    passing[i] = i % 2 ? resize(passing[i], 60) : passing[i];
  }
  for (int i = 0; i < COUNT; i++) {
    free(passing[i]);
  }
  return 0;
}
