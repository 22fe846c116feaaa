/* The sampler is switched on and off, and read, while threads allocate, pass blocks on, resize, and end. */
#include "inspect/sample.h"

#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "hakmem.h"
#include "pattern.h"
#include "prng.h"
#include "scenario.h"

enum { SHARED = 64, STEPS = 20000, CHANGES = 300 };

static _Atomic(unsigned char *) shared[SHARED];
static atomic_int busy;

/* The first words of a block hold its size. */
static void fill(unsigned char *block, size_t bytes) {
  memcpy(block, &bytes, sizeof bytes);
  pattern_fill(block + sizeof bytes, bytes - sizeof bytes, bytes);
}

static void check_and_free(unsigned char *block) {
  size_t bytes;
  if (block) {
    memcpy(&bytes, block, sizeof bytes);
    CHECK(pattern_holds(block + sizeof bytes, bytes - sizeof bytes, bytes - sizeof bytes, bytes));
    hak_free(block);
  }
}

static unsigned char *make(Prng *prng) {
  size_t bytes = sizeof bytes + prng_below(prng, prng_below(prng, 100) ? 1000 : 200000), grown = bytes * 3 / 2;
  unsigned char *block;
  switch (prng_below(prng, 8)) {
  case 0:
    block = hak_calloc(1, bytes);
    break;
  case 1:
    block = hak_memalign(256, bytes);
    break;
  case 2:
    block = hak_malloc(bytes);
    CHECK(block != NULL);
    fill(block, bytes);
    block = hak_realloc(block, grown);
    bytes = grown;
    break;
  default:
    block = hak_malloc(bytes);
  }
  CHECK(block != NULL && hak_malloc_usable_size(block) >= bytes);
  fill(block, bytes);
  return block;
}

static void *churn(void *index) {
  Prng prng = prng_seeded((size_t)index + 1);
  for (int i = 0; i < STEPS; i++) {
    check_and_free(atomic_exchange(&shared[prng_below(&prng, SHARED)], make(&prng)));
  }
  atomic_fetch_sub(&busy, 1);
  return NULL;
}

static void *short_life(void *index) {
  Prng prng = prng_seeded((size_t)index);
  for (int i = 0; i < 20; i++) {
    check_and_free(make(&prng));
  }
  return NULL;
}

static void *short_lives(void *index) {
  while (atomic_load(&busy) > 0) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, short_life, index) == 0 && pthread_join(thread, NULL) == 0);
  }
  return NULL;
}

static void look(const hak_sample_t *sample, void *count) {
  CHECK(sample->block != NULL && sample->weight_bytes >= (double)sample->bytes);
  ++*(size_t *)count;
}

static void *change(void *unused) {
  static const size_t means[] = {1, 500, 4096, 1 << 19};
  size_t seen = 0;
  (void)unused;
  for (int i = 0; i < CHANGES || atomic_load(&busy) > 0; i++) {
    CHECK(hak_sample_start(means[i % 4]));
    hak_sampler_each(look, &seen);
    static char text[1 << 16];
    (void)hak_stats_json(text, sizeof text);
    if (i % 3 == 0) {
      hak_sample_stop();
    }
  }
  return NULL;
}

void sampler_storm(void) {
  enum { CHURNERS = 3 };
  CHECK(hak_sample_guard(20000, 64));
  atomic_store(&busy, CHURNERS);
  pthread_t changer, spawner;
  CHECK(pthread_create(&changer, NULL, change, NULL) == 0);
  CHECK(pthread_create(&spawner, NULL, short_lives, NULL) == 0);
  run_threads(CHURNERS, churn);
  CHECK(pthread_join(changer, NULL) == 0 && pthread_join(spawner, NULL) == 0);
  for (size_t i = 0; i < SHARED; i++) {
    check_and_free(atomic_load(&shared[i]));
  }
  hak_sample_stop();
  CHECK(hak_records_live() == 0 && hak_samples.taken > 0);
}
