/* Sets of slices, compared with a simple model that checks one bit after the other. */
#include "base/mask.h"

#include "check.h"
#include "prng.h"

enum { BITS = HAK_CHUNK_SLICES };

static bool has(hak_mask_t mask, size_t bit) {
  return bit < BITS && (mask >> bit & 1) != 0;
}

static hak_mask_t with(hak_mask_t mask, size_t bit) {
  return mask | (hak_mask_t)1 << bit;
}

static bool has_row(hak_mask_t mask, size_t first, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!has(mask, first + i)) {
      return false;
    }
  }
  return true;
}

static size_t row_at(hak_mask_t mask, size_t first) {
  size_t count = 0;
  while (has(mask, first + count)) {
    count++;
  }
  return count;
}

static void ranges_are_exact(void) {
  for (size_t first = 0; first < BITS; first++) {
    for (size_t count = 0; first + count <= BITS; count++) {
      hak_mask_t naive = 0;
      for (size_t i = 0; i < count; i++) {
        naive = with(naive, first + i);
      }
      CHECK(hak_mask_of(first, count) == naive);
    }
  }
  CHECK(hak_mask_of(0, BITS) == HAK_MASK_ALL);
}

static void aligned_bits_are_the_multiples(void) {
  for (size_t align = 1; align <= BITS; align *= 2) {
    hak_mask_t naive = 0;
    for (size_t bit = 0; bit < BITS; bit += align) {
      naive = with(naive, bit);
    }
    CHECK(hak_mask_aligned(align) == naive);
  }
}

/* Compares the run around each bit that is set. */
static void compare_rows_around(hak_mask_t mask) {
  for (size_t bit = 0; bit < BITS; bit++) {
    if (has(mask, bit)) {
      size_t first = bit;
      while (first > 0 && has(mask, first - 1)) {
        first--;
      }
      CHECK(hak_mask_row_around(mask, bit) == row_at(mask, first));
    }
  }
}

static void compare(hak_mask_t mask) {
  uint32_t bits = 0, longest = 0, lowest = BITS;
  for (uint32_t bit = BITS; bit-- > 0;) {
    uint32_t row = (uint32_t)row_at(mask, bit);
    bits += has(mask, bit);
    longest = row > longest ? row : longest;
    lowest = row > 0 ? bit : lowest;
  }
  CHECK(hak_mask_count(mask) == bits);
  CHECK(hak_mask_longest(mask) == longest);
  if (mask) {
    uint32_t count = 0;
    CHECK(hak_mask_lowest(mask) == lowest);
    CHECK(hak_mask_row(mask, &count) == lowest && count == row_at(mask, lowest));
  }
}

static void compare_starts(hak_mask_t mask, size_t count) {
  hak_mask_t starts = hak_mask_starts(mask, count);
  for (size_t bit = 0; bit < BITS; bit++) {
    CHECK(has(starts, bit) == has_row(mask, bit, count));
  }
}

static void every_row_is_found(void) {
  compare(0);
  for (size_t first = 0; first < BITS; first++) {
    for (size_t count = 1; first + count <= BITS; count++) {
      hak_mask_t row = hak_mask_of(first, count);
      compare(row);
      CHECK(hak_mask_row_around(row, first) == count && hak_mask_row_around(row, first + count - 1) == count);
      compare(~row);
    }
  }
}

static void rows_around_every_bit_are_found(void) {
  compare_rows_around(HAK_MASK_ALL);
  for (size_t bit = 0; bit < BITS; bit++) {
    compare_rows_around(~hak_mask_of(bit, 1));
  }
}

static void starts_of_every_count_are_found(void) {
  for (size_t count = 1; count <= BITS; count++) {
    compare_starts(0, count);
    compare_starts(HAK_MASK_ALL, count);
    compare_starts(hak_mask_of(0, count), count);
    compare_starts(hak_mask_of(BITS - count, count), count);
    compare_starts(hak_mask_of(BITS - count, count) >> 1, count);
  }
}

/* Rows of random lengths, so that long ones occur. */
static hak_mask_t random_mask(Prng *prng, uint32_t longest) {
  hak_mask_t mask = 0;
  bool set = prng_below(prng, 2) != 0;
  for (size_t bit = 0; bit < BITS; set = !set) {
    for (size_t left = 1 + prng_below(prng, longest); left > 0 && bit < BITS; left--, bit++) {
      mask = set ? with(mask, bit) : mask;
    }
  }
  return mask;
}

static void random_masks_agree(void) {
  Prng prng = prng_seeded(1);
  for (int round = 0; round < 3000; round++) {
    hak_mask_t mask = random_mask(&prng, 1 + prng_below(&prng, BITS));
    compare(mask);
    compare_rows_around(mask);
    compare_starts(mask, 1 + prng_below(&prng, BITS));
    compare_starts(mask, 1 + prng_below(&prng, 8));
  }
}

int main(void) {
  ranges_are_exact();
  aligned_bits_are_the_multiples();
  every_row_is_found();
  rows_around_every_bit_are_found();
  starts_of_every_count_are_found();
  random_masks_agree();
  return 0;
}
