/* Sizes around every likely boundary between size classes: powers of two and their quarters, up to 8 MiB. */
#ifndef HAK_TEST_SIZES_H
#define HAK_TEST_SIZES_H

#include <stddef.h>

#define EDGE_SIZES_MAX 512

static inline size_t edge_sizes(size_t sizes[EDGE_SIZES_MAX], size_t largest) {
  size_t count = 0;
  for (size_t n = 1; n <= 40 && n <= largest; n++) {
    sizes[count++] = n;
  }
  for (size_t power = 32; power <= largest; power *= 2) {
    for (size_t quarter = 0; quarter < 4; quarter++) {
      for (size_t around = 0; around < 3; around++) {
        size_t size = power + quarter * (power / 4) + around - 1;
        if (size > 40 && size <= largest && count < EDGE_SIZES_MAX) {
          sizes[count++] = size;
        }
      }
    }
  }
  return count;
}

#endif
