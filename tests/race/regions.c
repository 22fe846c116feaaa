/* Scenario: statistics and profiles are written while threads make, fill, resize, reset and end regions. */
#include <stdatomic.h>
#include <stdint.h>

#include "check.h"
#include "names.h"
#include "prng.h"
#include "scenario.h"

enum { CHURNERS = 3, OBSERVERS = 2, STEPS = 10000, SLOTS = 32, TEXT_BYTES = 1 << 16 };
static atomic_int churning;
static _Atomic(hak_region_t *) shared;

static size_t any_size(Prng *prng) {
  return prng_below(prng, 40) == 0 ? prng_below(prng, 5 << 20) : prng_below(prng, 20000);
}

/* A region of the thread's own, with one block that is left over. */
static void live_briefly(Prng *prng) {
  hak_region_t *own = hak_region_new(&(hak_region_options_t){.name = "own", .parent = atomic_load(&shared)});
  void *left = hak_region_malloc(own, any_size(prng));
  CHECK(left && hak_region_enter(own) && hak_malloc(any_size(prng) + 1));
  hak_region_leave(own);
  switch (prng_below(prng, 3)) {
  case 0:
    hak_region_reset(own);
    hak_region_destroy(own);
    break;
  case 1: /* the block in the scope leaks */
    hak_region_release(own);
    hak_free(left);
    break;
  default:
    hak_region_destroy(own);
  }
}

static void *churn(void *index) {
  void *blocks[SLOTS] = {NULL};
  Prng prng = prng_seeded((uintptr_t)index);
  for (int i = 0; i < STEPS; i++) {
    void **block = &blocks[prng_below(&prng, SLOTS)];
    if (prng_below(&prng, 4) == 0) {
      *block = hak_region_realloc(atomic_load(&shared), *block, any_size(&prng) + 1);
    } else {
      hak_free(*block);
      *block = hak_region_malloc(atomic_load(&shared), any_size(&prng));
    }
    CHECK(*block != NULL);
    if (i % 50 == 0) {
      live_briefly(&prng);
    }
  }
  for (size_t at = 0; at < SLOTS; at++) {
    hak_free(blocks[at]);
  }
  atomic_fetch_sub(&churning, 1);
  return NULL;
}

static void *observe(size_t index) {
  static char text[OBSERVERS][TEXT_BYTES];
  char *mine = text[index - CHURNERS];
  for (size_t round = 0; round < 3 || atomic_load(&churning) > 0; round++) {
    CHECK(hak_stats_json(mine, TEXT_BYTES) < TEXT_BYTES);
    CHECK(hak_stats_openmetrics(mine, TEXT_BYTES) < TEXT_BYTES);
    CHECK(hak_profile_write("/dev/null") == 0);
    CHECK(hak_profile_start((size_t)1 << (round % 3 * 6)) == 0);
    if (round % 5 == 4) {
      hak_profile_stop();
    }
  }
  return NULL;
}

static void *run(void *index) {
  return (size_t)index < CHURNERS ? churn(index) : observe((size_t)index);
}

void observed_regions(void) {
  atomic_store(&shared, hak_region_new(&(hak_region_options_t){.name = "shared"}));
  CHECK(hak_profile_start(4096) == 0);
  atomic_store(&churning, CHURNERS);
  run_threads(CHURNERS + OBSERVERS, run);
  hak_profile_stop();
  hak_region_usage_t usage;
  CHECK(hak_region_usage(atomic_load(&shared), &usage) && usage.live_blocks == 0);
  hak_region_destroy(atomic_load(&shared));
  hak_check();
}
