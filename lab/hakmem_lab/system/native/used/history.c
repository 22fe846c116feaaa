// Preloaded after an allocator: before `main` it gives the heap a past. Blocks of changing sizes come and go at random,
// and a quarter of the last ones stays for good, scattered over everything that was ever in use. Every run, on every
// allocator, asks for the same blocks in the same order.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 15, ROUNDS = 3, REQUESTS = 40000, STAYS_ONE_IN = 4 };

static void *slots[SLOTS];
static uint32_t state = 2463534242u;

static uint32_t drawn(uint32_t below) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state % below;
}

// From 16 B to 256 B at first, to 4 KiB in the last round: blocks of one round do not fill the holes of the one before.
static size_t drawn_size(int round) {
  size_t low = (size_t)16 << (2 * round) << drawn(4);
  return low + drawn((uint32_t)low);
}

__attribute__((constructor)) static void give_past(void) {
  int kept = errno;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < REQUESTS; i++) {
      void **slot = &slots[drawn(SLOTS)];
      size_t bytes = drawn_size(round);
      free(*slot);
      *slot = malloc(bytes);
      if (*slot != NULL) {
        memset(*slot, 1, bytes);
      }
    }
  }
  for (int i = 0; i < SLOTS; i++) {
    if (drawn(STAYS_ONE_IN) != 0) {
      free(slots[i]);
      slots[i] = NULL;
    }
  }
  errno = kept;
}
