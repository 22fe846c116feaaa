/* The arithmetic of sampling: random gaps, probabilities, weights. The sampler calls it. */
#include "sampling_math.h"

#include <string.h>

#define LN2 0x1.62e42fefa39efp-1
#define SQRT2 0x1.6a09e667f3bcdp+0

double hak_sampling_gap(double u) {
  enum { MANTISSA_BITS = 52, BIAS = 1023 };
  uint64_t bits;
  memcpy(&bits, &u, sizeof bits);
  int64_t exponent = (int64_t)(bits >> MANTISSA_BITS) - BIAS;
  bits = (bits & ((1ULL << MANTISSA_BITS) - 1)) | (uint64_t)BIAS << MANTISSA_BITS;
  double m; /* u = m * 2^exponent */
  memcpy(&m, &bits, sizeof m);
  if (m > SQRT2) {
    m /= 2;
    exponent++;
  }
  /* ln m = 2 (s + s^3 / 3 + s^5 / 5 + ...), with s^2 < 0.03. The terms are paired, so that they do not wait for one
   * another. */
  double s = (m - 1) / (m + 1), x = s * s, x2 = x * x;
  double sum = 1 + x * (1.0 / 3) + x2 * (1.0 / 5 + x * (1.0 / 7) + x2 * (1.0 / 9 + x * (1.0 / 11)));
  return -(2 * s * sum + (double)exponent * LN2);
}

double hak_sampling_one_minus_exp(double x) {
  enum { TERMS = 12, CERTAIN = 40 };
  const double small = 0.25;
  int halvings = 0;
  if (x >= CERTAIN) {
    return 1;
  }
  for (; x > small; halvings++) {
    x /= 2;
  }
  double sum = 0; /* x - x^2 / 2! + x^3 / 3! - ... */
  for (int term = TERMS; term >= 1; term--) {
    sum = x / term * (1 - sum);
  }
  for (; halvings > 0; halvings--) { /* 1 - (1 - sum)^2 */
    sum = sum * (2 - sum);
  }
  return sum;
}
