/* A seal for a size does not follow by arithmetic from the seals of the same block for other sizes. Whoever reads
 * behind a block sees its seal, and realloc in place shows one for each size.
 *
 * The attack: the code in a seal's high bits is masked with bits that stay the same, so it gives differences of codes.
 * If d is the code that is sought, and d = a + b - c or d = a ^ b ^ c for known ones, the same is tried on the rest. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { CLASS = 112, LEAST = 96, SEALS = 9, KNOWN = SEALS - 1, BLOCKS = 500, CODE_BITS_MAX = 24 };

static uint64_t seal_of(const char *block) {
  uint64_t seal;
  memcpy(&seal, (const char *)hide_pointer(block) + CLASS - sizeof seal, sizeof seal);
  return seal;
}

/* Whether the seal is found by one of these sums; its hash has `bits` fewer bits than a word. */
static int is_found(const uint64_t *seals, uint64_t sought, unsigned bits) {
  uint64_t low = ~(uint64_t)0 >> bits, code[SEALS];
  for (uint64_t i = 0; i < SEALS; i++) {
    code[i] = (seals[0] >> (64 - bits) ^ LEAST) ^ (LEAST + i); /* what the product is made of, in its low bits */
  }
  for (int a = 0; a < KNOWN; a++) {
    for (int b = 0; b < KNOWN; b++) {
      for (int c = 0; c < KNOWN; c++) {
        if (a == c || b == c) {
          continue;
        }
        uint64_t sum = (seals[a] & low) + (seals[b] & low) - (seals[c] & low), mixed = seals[a] ^ seals[b] ^ seals[c];
        if ((code[a] + code[b] - code[c] == code[KNOWN] &&
             (((sum ^ sought) & low & ~(uint64_t)1) == 0 || ((sum + 2) ^ sought) >> 1 << (bits + 1) == 0)) ||
            ((code[a] ^ code[b] ^ code[c]) == code[KNOWN] && ((mixed ^ sought) & low & ~(uint64_t)1) == 0)) {
          return 1;
        }
      }
    }
  }
  return 0;
}

int main(void) {
  int found = 0, tried = 0;
  for (int i = 0; i < BLOCKS; i++) {
    char *block = malloc(LEAST);
    uint64_t seals[SEALS];
    CHECK(block != NULL);
    for (size_t j = 0; j < SEALS; j++) {
      CHECK(realloc(block, LEAST + j) == block);
      seals[j] = seal_of(block);
      CHECK(j == 0 || seals[j] != seals[j - 1]);
    }
    for (unsigned bits = 8; bits <= CODE_BITS_MAX; bits++, tried++) {
      found += is_found(seals, seals[KNOWN], bits);
    }
    free(block);
  }
  printf("%d of %d found\n", found, tried);
  CHECK(found == 0);
  return 0;
}
