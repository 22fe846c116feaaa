/* A fixed run through everything that makes the core call the operating system. Any of these calls may fail (inject.h).
 * The program prints how many calls of each kind could fail, and how many did: `KIND COUNT` per line.
 *
 * Whichever call fails, the program does not crash, a failed request returns NULL and ENOMEM, a successful one leaves
 * errno as it was, and existing blocks keep their contents. When the failures end, every request succeeds again, and
 * the heap is sound. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "inject.h"
#include "inspect/sample.h"
#include "names.h"
#include "pattern.h"

enum { SLOTS = 3000 };

typedef struct {
  unsigned char *block;
  size_t bytes;
} Slot;
static Slot slots[SLOTS];
static size_t refused;

static void keep(size_t at, void *block, size_t bytes) {
  if (block == NULL) {
    CHECK(errno == ENOMEM);
    refused++;
    return;
  }
  CHECK(slots[at].block == NULL);
  CHECK(errno == 0); /* whatever failed on the way */
  CHECK(hak_malloc_usable_size(block) >= bytes);
  slots[at] = (Slot){.block = block, .bytes = bytes};
  pattern_fill(block, bytes, at);
}

static void drop(size_t at) {
  Slot *slot = &slots[at];
  if (slot->block == NULL) {
    return;
  }
  CHECK(pattern_holds(slot->block, slot->bytes, slot->bytes, at));
  errno = ERANGE;
  hak_free(slot->block);
  CHECK(errno == ERANGE); /* even when giving memory back failed */
  slot->block = NULL;
}

static void resize(size_t at, size_t bytes) {
  Slot *slot = &slots[at];
  if (slot->block == NULL) {
    return;
  }
  errno = 0;
  unsigned char *moved = hak_realloc(slot->block, bytes);
  if (moved == NULL) {
    CHECK(errno == ENOMEM);
    CHECK(pattern_holds(slot->block, slot->bytes, slot->bytes, at));
    refused++;
    return;
  }
  CHECK(pattern_holds(moved, bytes < slot->bytes ? bytes : slot->bytes, slot->bytes, at));
  CHECK(errno == 0);
  *slot = (Slot){.block = moved, .bytes = bytes};
  pattern_fill(moved, bytes, at);
}

static void drop_all(void) {
  for (size_t at = 0; at < SLOTS; at++) {
    drop(at);
  }
}

static void small_blocks(void) {
  for (size_t at = 0; at < SLOTS; at++) {
    errno = 0;
    keep(at, at % 7 == 0 ? hak_calloc(1, at % 1500) : hak_malloc(at % 1500), at % 1500);
  }
  for (size_t at = 0; at < SLOTS; at += 2) {
    drop(at);
  }
  hak_thread_flush();
  for (size_t at = 0; at < SLOTS; at += 2) {
    errno = 0;
    keep(at, hak_malloc(at % 3000), at % 3000);
  }
  drop_all();
}

static void middle_blocks(void) {
  for (size_t at = 0; at < 150; at++) {
    errno = 0;
    keep(at, hak_malloc(4000 + at * 1400), 4000 + at * 1400);
  }
  (void)hak_trim(0);
  for (size_t at = 0; at < 150; at += 3) {
    drop(at);
  }
  (void)hak_trim(0);
  drop_all();
}

static void huge_blocks(void) {
  for (size_t at = 0; at < 8; at++) {
    errno = 0;
    keep(at, at == 5 ? hak_calloc(1, 6 << 20) : hak_malloc((at + 1) << 20), at == 5 ? 6 << 20 : (at + 1) << 20);
  }
  for (size_t at = 0; at < 8; at++) {
    resize(at, (at + 3) * 700000);
    resize(at, (at + 1) * 300000);
    resize(at, at % 2 == 0 ? 5000 : 12 << 20);
  }
  drop_all();
  (void)hak_trim(0);
}

static void aligned_blocks(void) {
  for (size_t at = 0; at < 24; at++) {
    size_t alignment = (size_t)1 << at, bytes = at * 5000 + 1;
    errno = 0;
    void *block = hak_aligned_alloc(alignment, bytes);
    CHECK((size_t)block % alignment == 0);
    keep(at, block, bytes);
  }
  drop_all();
}

static void *in_a_thread(void *argument) {
  (void)argument;
  small_blocks();
  return NULL;
}

static void another_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, in_a_thread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void workload(void) {
  small_blocks();
  middle_blocks();
  huge_blocks();
  aligned_blocks();
  another_thread();
  (void)hak_trim(0);
}

int main(void) {
  static char text[1 << 16];
  bool sampling = getenv("FAULT_SAMPLED") != NULL;
  hak_sample_seed(1); /* so that every run makes the same calls */
  CHECK(!sampling || hak_sample_start(2000) || inject_failures() > 0);
  workload();
  inject_stop();
  CHECK(!sampling || hak_sample_start(2000));
  size_t refused_before = refused;
  CHECK(inject_failures() > 0 || refused == 0);
  workload();
  CHECK(refused == refused_before);
  CHECK(hak_stats_json(text, sizeof text) > 0);
  hak_sample_stop();
  hak_thread_flush();
  hak_check();
  CHECK(hak_records_live() == 0 && (hak_samples.taken > 1000) == sampling);

#define X(name) printf(#name " %llu\n", (unsigned long long)inject_calls(#name));
  FAULT_CALLS(X)
#undef X
  printf("any %llu\n", (unsigned long long)inject_calls("any"));
  printf("failed %llu\n", (unsigned long long)inject_failures());
  return 0;
}
