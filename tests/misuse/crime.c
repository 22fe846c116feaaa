#include "crime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { TABLE_SLOTS = 1 << 17, DRAIN_BLOCKS_MAX = 20000, DRAIN_BLOCKS_MIN = 8 };
#define DRAIN_BYTES ((size_t)64 << 20)

/* A hash table with open addressing. A freed entry becomes TOMBSTONE, so that later searches go on. */
static uintptr_t live[TABLE_SLOTS];
#define TOMBSTONE ((uintptr_t)1)

static size_t slot_of(uintptr_t address) {
  return (size_t)((address * 0x9e3779b97f4a7c15u) >> 40) % TABLE_SLOTS;
}

static uintptr_t *find(uintptr_t address) {
  size_t slot = slot_of(address);
  while (live[slot] != 0 && live[slot] != address) {
    slot = (slot + 1) % TABLE_SLOTS;
  }
  return &live[slot];
}

void announce(const void *block) {
  char line[32];
  int length = snprintf(line, sizeof line, "%p\n", block);
  CHECK(write(STDOUT_FILENO, line, (size_t)length) == length);
}

void registered(const void *block) {
  uintptr_t *entry = find((uintptr_t)block);
  if (*entry != 0) {
    _exit(EXIT_HANDED_OUT_TWICE);
  }
  *entry = (uintptr_t)block;
}

void *take(size_t bytes) {
  unsigned char *block = hak_malloc(bytes);
  CHECK(block != NULL);
  registered(block);
  memset(block, 0xa5, bytes < 16 ? bytes : 16);
  return block;
}

void give(void *block) {
  *find((uintptr_t)block) = TOMBSTONE;
  hak_free(block);
}

void take_many(void **blocks, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = take(bytes);
  }
}

void give_many(void **blocks, size_t count) {
  for (size_t i = 0; i < count; i++) {
    give(blocks[i]);
  }
}

void free_aba(size_t bytes) {
  void *a = take(bytes), *b = take(bytes);
  announce(a);
  give(a);
  give(b);
  hak_free(hide_pointer(a));
}

void drain(size_t bytes) {
  size_t blocks = bytes > 0 ? DRAIN_BYTES / bytes : DRAIN_BLOCKS_MAX;
  if (blocks > DRAIN_BLOCKS_MAX) {
    blocks = DRAIN_BLOCKS_MAX;
  }
  if (blocks < DRAIN_BLOCKS_MIN) {
    blocks = DRAIN_BLOCKS_MIN;
  }
  for (size_t i = 0; i < blocks; i++) {
    take(bytes);
  }
}

static const char *given(const char *name) {
  char variable[32];
  int length = snprintf(variable, sizeof variable, "CRIME_%s", name);
  CHECK(length > 0 && (size_t)length < sizeof variable);
  return getenv(variable);
}

size_t crime_number(const char *name) {
  const char *text = given(name);
  CHECK(text != NULL);
  return strtoull(text, NULL, 0);
}

size_t crime_number_or(const char *name, size_t otherwise) {
  return given(name) ? crime_number(name) : otherwise;
}

/* Uses sizes that no crime uses, so that malloc does not return the damaged blocks. */
static void *use_heap(void *none) {
  static const size_t sizes[] = {333, 7000, 60000, 300000, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *block = hak_malloc(sizes[i]), *more = hak_malloc(sizes[i]);
    CHECK(block && more);
    memset(block, 1, sizes[i]);
    hak_free(more);
    CHECK((block = hak_realloc(block, sizes[i] + sizes[i] / 2)));
    hak_free(block);
  }
  return none;
}

/* Behaves like a crash reporter: it allocates, formats text and starts a thread. The signal's own action follows. */
static void on_abort(int number) {
  enum { HANG_S = 20 };
  char text[64];
  pthread_t other;
  alarm(HANG_S);
  use_heap(NULL);
  CHECK(snprintf(text, sizeof text, "%.40f", (double)number) > 0);
  CHECK(pthread_create(&other, NULL, use_heap, NULL) == 0);
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(signal(number, SIG_DFL) != SIG_ERR);
}

__attribute__((constructor)) static void handle_abort(void) {
  CHECK(signal(SIGABRT, on_abort) != SIG_ERR);
}

__attribute__((constructor)) static void warm_up(void) {
  enum { ROUNDS = 20, BLOCKS = 4 };
  size_t bytes = crime_number_or("WARM_BYTES", 0), room = crime_number_or("WARM_ROOM", 0);
  if (bytes == 0) {
    return;
  }
  for (int round = 0; round < ROUNDS; round++) {
    void *blocks[BLOCKS];
    take_many(blocks, BLOCKS, bytes);
    give_many(blocks, BLOCKS);
  }
  for (size_t i = 0; i < room; i++) {
    take(bytes);
  }
}

#ifdef HAK_TEST_STANDARD_NAMES
void flush_thread_cache(void) {
  void (*flush)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "hak_thread_flush");
  CHECK(flush != NULL);
  flush();
}
#else
void flush_thread_cache(void) {
  hak_thread_flush();
}
#endif
