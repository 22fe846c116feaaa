/* A small, fast, seedable generator (xorshift64*): the same seed gives the same test on every machine. */
#ifndef HAK_TEST_PRNG_H
#define HAK_TEST_PRNG_H

#include <stdint.h>

typedef struct {
  uint64_t state;
} Prng;

static inline uint64_t prng_mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

static inline Prng prng_seeded(uint64_t seed) {
  Prng prng = {prng_mix(seed + 0x9e3779b97f4a7c15u) | 1};
  return prng;
}

static inline uint64_t prng_next(Prng *prng) {
  uint64_t x = prng->state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  prng->state = x;
  return x * 0x2545f4914f6cdd1du;
}

/* Uniform in [0, bound), bound < 2^32. */
static inline uint32_t prng_below(Prng *prng, uint32_t bound) {
  return (uint32_t)(((prng_next(prng) >> 32) * bound) >> 32);
}

#endif
