/* A threaded load whose contents are checked: blocks of every kind, kept, grown, cleared and freed by other threads,
 * while threads come and go. Linked with no allocator.
 *   LOADED_FILTER=RULES    it runs in a sandbox that it makes itself
 *   LOADED_UNALIGNED=1     it allocates no aligned blocks, since some tools do not support them */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "confine.h"

enum { THREADS = 3, ROUNDS = 3, SLOTS = 200, STEPS = 2400, SHARED = 64, BURSTS = 1500 };

typedef struct {
  unsigned char *block;
  size_t bytes;
  unsigned char mark;
} Slot;

static bool unaligned;
static _Atomic(unsigned char *) shared[SHARED]; /* all 100 bytes have the value of the first */

static uint64_t draw(uint64_t *state) {
  *state = *state * 6364136223846793005U + 1442695040888963407U;
  return *state >> 33;
}

static void verify(const unsigned char *block, size_t bytes, unsigned char mark) {
  for (size_t i = 0; i < bytes; i += bytes < 5000 ? 1 : 501) {
    CHECK(block[i] == mark);
  }
}

static void fill(Slot *slot, size_t bytes, unsigned char mark, uint64_t how) {
  slot->block = how % 4 == 0                  ? calloc(1, bytes)
                : how % 29 == 1 && !unaligned ? aligned_alloc(4096, (bytes + 4095) & ~4095UL)
                                              : malloc(bytes);
  CHECK(slot->block != NULL);
  if (how % 4 == 0) {
    verify(slot->block, bytes, 0);
  }
  slot->bytes = bytes;
  slot->mark = mark;
  memset(slot->block, mark, bytes);
}

static void step(Slot *slot, uint64_t *state) {
  static const size_t most[] = {64, 256, 1024, 64, 4096, 300, 40000, 64, 300000, 32, 100, 2500000};
  uint64_t how = draw(state);
  size_t bytes = 1 + draw(state) % most[draw(state) % (how % 41 == 0 ? 12 : 8)];
  if (!slot->block) {
    fill(slot, bytes, (unsigned char)how, how);
    return;
  }
  verify(slot->block, slot->bytes, slot->mark);
  if (how % 5 == 0) {
    size_t kept = bytes < slot->bytes ? bytes : slot->bytes;
    slot->block = realloc(slot->block, bytes);
    CHECK(slot->block != NULL);
    verify(slot->block, kept, slot->mark);
    memset(slot->block, slot->mark, bytes);
    slot->bytes = bytes;
  } else {
    free(slot->block);
    slot->block = NULL;
  }
}

static void exchange(uint64_t *state) {
  unsigned char *mine = malloc(100), *other;
  CHECK(mine != NULL);
  memset(mine, (int)draw(state), 100);
  other = atomic_exchange(&shared[draw(state) % SHARED], mine);
  if (other) {
    verify(other, 100, other[0]);
    free(other);
  }
}

/* Another thread frees the blocks that one thread allocated in a row. */
static void burst(uint64_t *state) {
  static void *_Atomic left[BURSTS];
  size_t bytes = (size_t)16 << draw(state) % 8, count = draw(state) % BURSTS;
  for (size_t i = 0; i < count; i++) {
    void *block = malloc(bytes);
    CHECK(block != NULL);
    memset(block, 3, bytes);
    free(atomic_exchange(&left[i], block));
  }
}

static void *run(void *seed) {
  static _Thread_local Slot slots[SLOTS];
  uint64_t state = (uintptr_t)seed;
  for (int i = 0; i < STEPS; i++) {
    step(&slots[draw(&state) % SLOTS], &state);
    exchange(&state);
    if (i % 300 == 0) {
      burst(&state);
    }
  }
  char *grown = NULL;
  for (size_t bytes = 1 << 16; bytes <= 10 << 20; bytes += bytes / 2) {
    CHECK((grown = realloc(grown, bytes)) != NULL);
    grown[bytes - 1] = 1;
  }
  free(grown);
  for (int i = 0; i < SLOTS; i++) {
    if (slots[i].block) {
      verify(slots[i].block, slots[i].bytes, slots[i].mark);
      free(slots[i].block);
      slots[i].block = NULL;
    }
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  const char *filter = getenv("LOADED_FILTER");
  alarm(60);
  unaligned = getenv("LOADED_UNALIGNED") != NULL;
  CHECK(!filter || confine(filter));
  for (uintptr_t round = 0; round < ROUNDS; round++) {
    for (uintptr_t i = 0; i < THREADS; i++) {
      CHECK(pthread_create(&threads[i], NULL, run, (void *)(1 + i + round * THREADS)) == 0);
    }
    run((void *)(100 + round));
    for (int i = 0; i < THREADS; i++) {
      CHECK(pthread_join(threads[i], NULL) == 0);
    }
    malloc_trim(0);
  }
  return 0;
}
