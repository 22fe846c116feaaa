/* Scenario: heap profiles of every format are written while threads allocate, and sampling begins and ends. */
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"
#include "names.h"
#include "prng.h"
#include "scenario.h"

enum { CHURNERS = 3, WRITERS = 2, STEPS = 4000, ROUNDS = 6, SLOTS = 64 };
static atomic_int churning;
static const char *const endings[] = {"pb.gz", "pb", "folded", "txt"};
enum { ENDINGS = sizeof endings / sizeof *endings };
static char folder[] = "/tmp/hak-race-XXXXXX";

__attribute__((noinline)) static void *allocate(Prng *prng, int depth) {
  return depth > 0 ? allocate(prng, depth - 1) : hak_malloc(1 + prng_below(prng, 20000));
}

static void *churn(void *index) {
  void *blocks[SLOTS] = {NULL};
  Prng prng = prng_seeded((uintptr_t)index);
  for (int i = 0; i < STEPS; i++) {
    size_t at = prng_below(&prng, SLOTS);
    hak_free(blocks[at]);
    blocks[at] = allocate(&prng, (int)prng_below(&prng, 20));
    CHECK(blocks[at] != NULL);
  }
  for (size_t at = 0; at < SLOTS; at++) {
    hak_free(blocks[at]);
  }
  atomic_fetch_sub(&churning, 1);
  return NULL;
}

static void *write_profiles(size_t index) {
  for (size_t round = 0; round < ROUNDS || atomic_load(&churning) > 0; round++) {
    char name[64];
    snprintf(name, sizeof name, "%s/%zu.%s", folder, index, endings[round % ENDINGS]);
    CHECK(hak_profile_write(name) == 0);
    CHECK(hak_profile_start((size_t)1 << (round % 3 * 6)) == 0);
    if (round % 5 == 4) {
      hak_profile_stop();
    }
  }
  return NULL;
}

static void *run(void *index) {
  return (size_t)index < CHURNERS ? churn(index) : write_profiles((size_t)index);
}

void profile_writers(void) {
  CHECK(mkdtemp(folder) != NULL);
  CHECK(hak_profile_start(4096) == 0);
  atomic_store(&churning, CHURNERS);
  run_threads(CHURNERS + WRITERS, run);
  hak_profile_stop();
  for (size_t index = CHURNERS; index < CHURNERS + WRITERS; index++) {
    for (size_t i = 0; i < ENDINGS; i++) {
      char name[64];
      snprintf(name, sizeof name, "%s/%zu.%s", folder, index, endings[i]);
      CHECK(unlink(name) == 0);
    }
  }
  CHECK(rmdir(folder) == 0);
}
