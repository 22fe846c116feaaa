/* Threads take and give at the same time: none gets memory that another one holds, and the totals are right at the
 * end. */
#include <pthread.h>

#include "child.h"
#include "prng.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

enum { THREADS = 4, ROUNDS = 400, HELD = 12 };

typedef struct Held {
  char *base;
  size_t chunks, slices;
} Held;

/* Only the owner writes the contents: the address, at both ends of each slice. */
static void mark(const Held *held) {
  for (size_t i = 0; i < held->chunks * CHUNK + held->slices; i++) {
    char **words = (char **)(void *)slice_of(held->base, i);
    words[0] = words[HAK_SLICE_BYTES / sizeof *words - 1] = held->base;
  }
}

static void verify(const Held *held) {
  for (size_t i = 0; i < held->chunks * CHUNK + held->slices; i++) {
    char **words = (char **)(void *)slice_of(held->base, i);
    CHECK(words[0] == held->base && words[HAK_SLICE_BYTES / sizeof *words - 1] == held->base);
  }
}

static void take(Held *held, Prng *prng) {
  bool zeroed;
  if (prng_below(prng, 4)) {
    *held = (Held){NULL, 0, 1 + prng_below(prng, prng_below(prng, 4) ? 10 : CHUNK)};
    held->base = hak_arena_take(held->slices, 1, &zeroed);
  } else {
    *held = (Held){NULL, 1 + prng_below(prng, 3), prng_below(prng, CHUNK)};
    held->base = hak_huge_chunks_take(held->chunks, held->slices, 1, false, &zeroed);
  }
  CHECK(held->base != NULL);
  mark(held);
}

static void change(Held *held, Prng *prng) {
  if (held->chunks > 1) {
    char *end = chunk_of(held->base, held->chunks);
    size_t tail = 1 + prng_below(prng, CHUNK - 1), old = held->slices;
    CHECK(hak_huge_chunks_shrink(held->base, 1, tail));
    *held = (Held){held->base, 1, tail};
    if (old > 0) {
      hak_arena_give(end, old);
    }
  } else if (held->chunks == 0 && hak_arena_extend(held->base, held->slices, 1)) {
    held->slices++;
    mark(held);
  }
}

static void give(Held *held) {
  verify(held);
  if (held->chunks > 0) {
    chunks_give(held->base, held->slices);
  } else {
    hak_arena_give(held->base, held->slices);
  }
  held->base = NULL;
}

static _Atomic size_t seeds;
static pthread_barrier_t barrier;

static void *work(void *unused) {
  (void)unused;
  Held held[HELD] = {0};
  Prng prng = prng_seeded(++seeds);
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < ROUNDS; i++) {
    Held *one = &held[prng_below(&prng, HELD)];
    if (!one->base) {
      take(one, &prng);
    } else if (prng_below(&prng, 2)) {
      verify(one);
      change(one, &prng);
    } else {
      give(one);
    }
    if (i % 64 == 0) {
      (void)hak_purge_all(prng_below(&prng, CHUNK));
      hak_purge_tick(i * 1000);
      (void)hak_arena_why(one);
    }
  }
  for (size_t i = 0; i < HELD; i++) {
    if (held[i].base) {
      give(&held[i]);
    }
  }
  return NULL;
}

static void run_threads(void *(*body)(void *)) {
  pthread_t threads[THREADS];
  CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, body, NULL) == 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  slices_add_up();
  CHECK(hak_retain_used_slices() == 0);
}

static void threads_share_the_arena(void) {
  set_number("RETAIN", 4 << 20);
  run_threads(work);
}

static void threads_give_back_at_once(void) {
  set_number("RETAIN", 0);
  set_number("RETAIN_MAX", 0);
  set_number("WARM_POOL_SIZE", 0);
  run_threads(work);
}

/* All spare descriptors are in use: each thread gets new ones when it returns from a system call. */
static void *shrink_at_once(void *unused) {
  (void)unused;
  bool zeroed;
  for (int i = 0; i < 30; i++) {
    char *base = hak_huge_chunks_take(2, 0, 1, false, &zeroed);
    CHECK(base != NULL);
    pthread_barrier_wait(&barrier);
    CHECK(hak_huge_chunks_shrink(base, 1, 1));
    pthread_barrier_wait(&barrier);
    chunks_give(base, 1);
  }
  return NULL;
}

static void threads_shrink_at_once(void) {
  run_threads(shrink_at_once);
}

int main(void) {
  child_succeeds(threads_share_the_arena);
  child_succeeds(threads_give_back_at_once);
  child_succeeds(threads_shrink_at_once);
  return 0;
}
