/* The helpers of base.h. */
#include "base/base.h"

#include "check.h"
#include "prng.h"

static void bits_are_counted(void) {
  Prng prng = prng_seeded(1);
  CHECK(hak_count_bits(0) == 0 && hak_count_bits(1) == 1 && hak_count_bits(UINT64_MAX) == 64);
  for (unsigned bit = 0; bit < 64; bit++) {
    CHECK(hak_count_bits(1ULL << bit) == 1 && hak_count_bits(~(1ULL << bit)) == 63);
    CHECK(hak_count_bits((1ULL << bit) - 1) == bit);
  }
  for (int i = 0; i < 1000; i++) {
    uint64_t bits = prng_next(&prng);
    uint32_t count = 0;
    for (uint64_t rest = bits; rest; rest &= rest - 1) {
      count++;
    }
    CHECK(hak_count_bits(bits) == count);
  }
}

int main(void) {
  bits_are_counted();
  return 0;
}
