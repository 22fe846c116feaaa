/* One misuse in a program that replaces 2,000 blocks of 32 to 1,024 bytes at random: odds KIND SEED. The program never
 * reads a block, so it ends by a signal only if the allocator notices. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIVE = 2000, BEFORE = 20000, AFTER = 20000 };

static char *volatile blocks[LIVE];
static uint64_t state;
static void *(*new_of)(size_t);
static void (*delete_of)(void *, size_t);

static uint32_t random_below(uint32_t end) {
  state = state * 6364136223846793005 + 1442695040888963407;
  return (uint32_t)((state >> 33) % end);
}

static void churn(int times) {
  while (times--) {
    uint32_t at = random_below(LIVE);
    free(blocks[at]);
    blocks[at] = malloc(32 + 16 * random_below(63));
  }
}

static void misuse(const char *kind) {
  uint32_t at = random_below(LIVE);
  while (!blocks[at]) {
    at = random_below(LIVE);
  }
  char *block = blocks[at];
  char *volatile end = block + malloc_usable_size(block);
  char *volatile start = block;
  if (!strcmp(kind, "over8")) {
    memset(end, 'A', 8);
  } else if (!strcmp(kind, "over16")) {
    memset(end, 'A', 16);
  } else if (!strcmp(kind, "under8")) {
    memset(start - 8, 'A', 8);
  } else if (!strcmp(kind, "late")) {
    free(block);
    memset(start + 8, 'A', 8);
    blocks[at] = NULL;
  } else if (!strcmp(kind, "size")) {
    delete_of(new_of(48), 96);
  } else if (!strcmp(kind, "double")) {
    free(block);
    free(start);
    blocks[at] = NULL;
  } else if (!strcmp(kind, "inside")) {
    free(start + 16);
  } else {
    exit(2);
  }
}

int main(int count, char **words) {
  if (count != 3) {
    return 2;
  }
  state = strtoull(words[2], NULL, 10) * 0x9e3779b97f4a7c15;
  void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
  *(void **)&new_of = dlsym(RTLD_DEFAULT, "_Znwm");
  *(void **)&delete_of = dlsym(RTLD_DEFAULT, "_ZdlPvm");
  if (!library || !new_of || !delete_of) {
    return 2;
  }
  churn(BEFORE);
  misuse(words[1]);
  churn(AFTER);
  return 0;
}
