/* Duty: the arithmetic of sampling: random gaps with an exponential distribution, probabilities and weights. The file
 * has no state and needs no libm, which a program that loads this library may lack. Layers below: base. */
#pragma once

#include "base/base.h"

/* The next number of a generator whose whole state is one word (splitmix64). */
HAK_INLINE uint64_t hak_sampling_random_mix(uint64_t state) {
  state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9U;
  state = (state ^ state >> 27) * 0x94d049bb133111ebU;
  return state ^ state >> 31;
}
#define HAK_RANDOM_STEP 0x9e3779b97f4a7c15U
HAK_INLINE uint64_t hak_sampling_random_next(uint64_t *state) {
  return hak_sampling_random_mix(*state += HAK_RANDOM_STEP);
}

/* Uniform in (0, 1). */
HAK_INLINE double hak_sampling_random_unit(uint64_t bits) {
  return ((double)(bits >> 12) + 0.5) * 0x1p-52; /* one bit more would be rounded away */
}

/* -ln(u), for u in (0, 1]. */
double hak_sampling_gap(double u);
/* 1 - e^-x, for x >= 0, with a double's relative precision except in the last few bits. */
double hak_sampling_one_minus_exp(double x);

/* The probability that a block is sampled, and the bytes that a sample stands for. A mean of 1 samples every block. */
HAK_INLINE double hak_sampling_probability(size_t bytes, uint64_t mean) {
  return mean == 1 ? 1 : hak_sampling_one_minus_exp((double)bytes / (double)mean);
}
HAK_INLINE double hak_sampling_weight(size_t bytes, uint64_t mean) {
  return bytes > 0 ? (double)bytes / hak_sampling_probability(bytes, mean) : 0;
}
