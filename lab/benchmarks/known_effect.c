/* A program with a known effect: known_effect OPERATIONS. Allocates and frees blocks of random sizes in a working set,
 * writes to each of them, and does so EFFECT percent more often than it was asked to, by the environment. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4096, MOST_BYTES = 1024 };

static uint64_t next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

int main(int argc, char **argv) {
  static char *slots[SLOTS];
  uint64_t state = 88172645463325252u;
  const char *effect = getenv("EFFECT");
  double operations = argc > 1 ? atof(argv[1]) : 0;
  operations *= 1 + (effect ? atof(effect) : 0) / 100;
  for (uint64_t i = 0; i < (uint64_t)operations; i++) {
    uint64_t random = next(&state);
    char **slot = &slots[random % SLOTS];
    size_t bytes = 16 + (random >> 32) % MOST_BYTES;
    free(*slot);
    *slot = malloc(bytes);
    if (!*slot) {
      return 1;
    }
    memset(*slot, (int)random, bytes / 4);
  }
  return 0;
}
