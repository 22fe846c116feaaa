/* Duty: the arithmetic of sampling: random gaps with an exponential distribution, chances and weights. No state of its
 * own, and no library of mathematics, which a program that loads this one need not have. Layers below: base. */
#pragma once

#include "base.h"

/* The next number of a generator whose whole state is one word (splitmix64). */
HAK_INLINE uint64_t hak_chance_mix(uint64_t state) {
  state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9U;
  state = (state ^ state >> 27) * 0x94d049bb133111ebU;
  return state ^ state >> 31;
}
#define HAK_CHANCE_STEP 0x9e3779b97f4a7c15U
HAK_INLINE uint64_t hak_chance_next(uint64_t *state) {
  return hak_chance_mix(*state += HAK_CHANCE_STEP);
}

/* Evenly distributed in (0, 1). */
HAK_INLINE double hak_chance_unit(uint64_t bits) {
  return ((double)(bits >> 12) + 0.5) * 0x1p-52; /* a bit more would be rounded */
}

/* -ln(u), for u in (0, 1]. */
double hak_chance_gap(double u);
/* 1 - e^-x, for x >= 0, with the relative precision of a double, but for the last few bits. */
double hak_chance_below(double x);

/* The chance that a block is sampled; and the bytes that a sampled one stands for. A mean of 1 samples each. */
HAK_INLINE double hak_chance_of(size_t bytes, uint64_t mean) {
  return mean == 1 ? 1 : hak_chance_below((double)bytes / (double)mean);
}
double hak_chance_weight(size_t bytes, uint64_t mean);
