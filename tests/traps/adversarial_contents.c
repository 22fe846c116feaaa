/* Correct programs whose data looks like the allocator's: whatever words a block holds when it is freed, the allocator
 * must not report damage. The words are the block's own address, zeros, every combination of addresses, and words that
 * free blocks held at the same place and at others.
 *
 * The words of free blocks are read by process_vm_readv, since their memory may be unmapped, which is no error. */
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "prng.h"
#include "trap.h"

enum { BLOCKS = 1200, IMAGE_SLOTS = 1 << 17, REPRODUCTION_BLOCKS = 40000, GRANULE = 16, READ_MAX = 512 };

typedef struct {
  uintptr_t at, words[2];
} Granule;

static Granule image[IMAGE_SLOTS]; /* words of free memory, by address; newer entries replace older ones */
static uintptr_t last_words[2];
static Prng prng;

static const size_t sizes[] = {16, 32, 48, 64, 80, 112, 200, 256, 1000, 3000};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef enum { OWN_ADDRESS, OWN_AND_ZERO, ZERO_AND_OWN, BLOCK_START, REPLAY, REPLAY_ELSEWHERE, FROM_START, KINDS } Kind;

static Granule *granule_of(uintptr_t at) {
  return &image[(at / GRANULE * 0x9e3779b97f4a7c15u) >> 47];
}

static void remember(const void *block, size_t bytes) {
  uintptr_t words[READ_MAX / sizeof(uintptr_t)];
  bytes = bytes < READ_MAX ? bytes & ~(size_t)(GRANULE - 1) : READ_MAX;
  struct iovec to = {words, bytes}, from = {(void *)(size_t)block, bytes};
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)bytes) {
    return;
  }
  for (size_t i = 0; i < bytes / GRANULE; i++) {
    uintptr_t at = (uintptr_t)block + i * GRANULE;
    *granule_of(at) = (Granule){at, {words[2 * i], words[2 * i + 1]}};
  }
  memcpy(last_words, words, sizeof last_words);
}

/* The two words of the granule at `at` inside the block. */
static void choose(Kind kind, uintptr_t block, uintptr_t at, uintptr_t words[2]) {
  const Granule *seen = granule_of(at), *other = &image[prng_next(&prng) % IMAGE_SLOTS];
  words[0] = at;
  words[1] = at + sizeof(uintptr_t);
  switch (kind) {
  case OWN_AND_ZERO:
    words[1] = 0;
    break;
  case ZERO_AND_OWN:
    words[1] = at;
    words[0] = 0;
    break;
  case BLOCK_START:
    words[0] = words[1] = block;
    break;
  case REPLAY:
    if (seen->at == at) {
      memcpy(words, seen->words, sizeof seen->words);
    }
    break;
  case REPLAY_ELSEWHERE:
    words[0] = other->at ? other->words[0] : last_words[0];
    words[1] = other->at ? other->words[1] : last_words[1];
    break;
  case FROM_START: /* a list head of its own, with the key computed from the last words */
    words[0] = block;
    words[1] = block ^ last_words[0] ^ last_words[1];
    break;
  default:
    break;
  }
}

static void fill(void *block, size_t bytes, Kind kind) {
  uintptr_t *words = block;
  for (size_t i = 0; i + GRANULE <= bytes; i += GRANULE) {
    choose(kind, (uintptr_t)block, (uintptr_t)block + i, &words[i / sizeof *words]);
  }
}

static void *blocks[BLOCKS];

static void take_and_fill(size_t bytes, Kind kind) {
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    fill(blocks[i], bytes, kind);
  }
  for (size_t i = 0; i < BLOCKS; i += 16) { /* a live block that looks free must not be refused */
    CHECK(hak_malloc_usable_size(blocks[i]) >= bytes);
    blocks[i] = hak_realloc(blocks[i], bytes);
    CHECK(blocks[i] != NULL);
  }
}

static void give_back(size_t bytes, bool backwards) {
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[backwards ? BLOCKS - 1 - i : i]);
  }
  for (size_t i = 0; i < BLOCKS; i += 9) {
    remember(blocks[i], bytes);
  }
}

static void *round_in_thread(void *argument) {
  size_t bytes = *(size_t *)argument;
  take_and_fill(bytes, OWN_ADDRESS);
  give_back(bytes, false);
  return NULL;
}

static void in_thread(size_t bytes) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, round_in_thread, &bytes) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void reproduction(size_t small, size_t other) {
  static void *kept[REPRODUCTION_BLOCKS];
  for (size_t i = 0; i < REPRODUCTION_BLOCKS; i++) {
    kept[i] = hak_malloc(small);
    CHECK(kept[i] != NULL);
    *(void **)kept[i] = kept[i];
  }
  for (size_t i = 0; i < REPRODUCTION_BLOCKS; i++) {
    hak_free(kept[i]);
  }
  void *block = hak_malloc(other);
  CHECK(block != NULL);
  hak_free(block);
}

int main(void) {
  trap_watchdog(60);
  prng = prng_seeded(7);
  reproduction(16, 200);
  reproduction(16, 40);
  reproduction(48, 16);
  for (unsigned round = 0; round < 2 * KINDS; round++) {
    Kind kind = (Kind)(round % KINDS);
    for (size_t s = 0; s < SIZES; s++) {
      size_t bytes = sizes[(s * 7 + round) % SIZES];
      take_and_fill(bytes, kind);
      give_back(bytes, (s + round) % 2 == 1);
      if (s % 4 == 1) {
        HAK(hak_thread_flush)();
        remember(blocks[0], bytes);
      }
      if (s % 5 == 3) {
        in_thread(bytes);
      }
    }
    HAK(hak_trim)(0);
  }
  HAK(hak_check)();
  return 0;
}
