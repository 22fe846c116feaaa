/* sites [ROUNDS]: allocates at two call sites, for ROUNDS rounds or forever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *kept[2000]; /* not static, so that the compiler keeps the allocations */

__attribute__((noinline)) void *hot(size_t bytes) {
  void *block = malloc(bytes);
  __asm__ volatile("" : : : "memory");
  return block;
}

__attribute__((noinline)) void *cold(size_t bytes) {
  void *block = malloc(bytes);
  memset(block, 1, bytes);
  __asm__ volatile("" : : : "memory");
  return block;
}

__attribute__((noinline)) void round_of(unsigned round) {
  for (int i = 0; i < 1000; i++) {
    free(kept[i]);
    kept[i] = hot(1000 + (unsigned)i % 100);
  }
  free(kept[1000 + round % 1000]);
  kept[1000 + round % 1000] = cold(5000);
}

int main(int count, char **words) {
  unsigned rounds = count > 1 ? (unsigned)atoi(words[1]) : 0;
  puts("ready");
  fflush(stdout);
  for (unsigned round = 0; rounds == 0 || round < rounds; round++) {
    round_of(round);
    if (rounds == 0) {
      usleep(1000);
    }
  }
  return count > 2 ? atoi(words[2]) : 0;
}
