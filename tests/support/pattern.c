#include "pattern.h"

#include <string.h>

/* The word at `offset` depends on the offset, so that shifted contents differ too. */
static uint64_t word_at(uint64_t tag, size_t offset) {
  return (tag ^ (uint64_t)offset) * 0x9e3779b97f4a7c15u;
}

static void put(unsigned char *block, size_t offset, size_t bytes, uint64_t tag) {
  uint64_t word = word_at(tag, offset);
  memcpy(block + offset, &word, bytes);
}

static bool same(const unsigned char *block, size_t offset, size_t bytes, uint64_t tag) {
  uint64_t word = word_at(tag, offset);
  return memcmp(block + offset, &word, bytes) == 0;
}

static size_t tail_bytes(size_t offset, size_t bytes) {
  return bytes - offset < sizeof(uint64_t) ? bytes - offset : sizeof(uint64_t);
}

/* Distance of two probes: a multiple of 8, so that probes of one block never overlap. */
static size_t probe_step(size_t bytes) {
  return bytes <= PATTERN_FULL_BYTES ? sizeof(uint64_t) : (bytes / PATTERN_PROBES) & ~(size_t)7;
}

void pattern_fill(void *block, size_t bytes, uint64_t tag) {
  unsigned char *at = block;
  size_t step = probe_step(bytes);
  for (size_t offset = 0; offset < bytes; offset += step) {
    put(at, offset, tail_bytes(offset, bytes), tag);
  }
  if (bytes > PATTERN_FULL_BYTES) {
    put(at, (bytes - 1) & ~(size_t)7, tail_bytes((bytes - 1) & ~(size_t)7, bytes), tag);
  }
}

bool pattern_holds(const void *block, size_t bytes, size_t filled_bytes, uint64_t tag) {
  const unsigned char *at = block;
  size_t step = probe_step(filled_bytes);
  for (size_t offset = 0; offset < bytes; offset += step) {
    if (!same(at, offset, tail_bytes(offset, bytes), tag)) {
      return false;
    }
  }
  size_t last = (filled_bytes - 1) & ~(size_t)7;
  return filled_bytes <= PATTERN_FULL_BYTES || last >= bytes || same(at, last, tail_bytes(last, bytes), tag);
}

bool all_zero(const void *block, size_t bytes) {
  const unsigned char *at = block;
  return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}
