/* The seals of the hardened profile: tails, and blocks of zeros. quarantine.c and hardened.c stand above. */
#include "seal.h"

#include <string.h>

hak_hard_t hak_hard = {.cleared = HAK_BLOCK_MIN};

static uint64_t repeated(uint64_t seal) {
  return (seal & 0xff) * 0x0101010101010101U;
}

/* Words may reach into the seal, which is written after them. */
void hak_seal_put(void *block, size_t size, uint32_t asked) {
  uint64_t seal = hak_seal_of(block, asked), tail = repeated(seal);
  size_t end = hak_seal_end(size, asked);
  hak_seal_store(block, size, seal);
  for (size_t at = asked; at + sizeof tail <= end; at += sizeof tail) {
    memcpy((char *)block + at, &tail, sizeof tail);
  }
  size_t rest = (end - asked) % sizeof tail;
  memset((char *)block + end - rest, (int)(seal & 0xff), rest);
}

bool hak_seal_tail_is_whole(const void *block, size_t size, uint32_t asked) {
  uint64_t tail = repeated(hak_seal_of(block, asked)), differs = 0, word;
  size_t end = hak_seal_end(size, asked), at = asked;
  for (; at + sizeof word <= end; at += sizeof word) {
    memcpy(&word, (const char *)block + at, sizeof word);
    differs |= word ^ tail;
  }
  for (; at < end; at++) {
    differs |= (uint64_t)((unsigned char *)block)[at] ^ (tail & 0xff);
  }
  return differs == 0;
}

bool hak_seal_is_zero(const void *from, const void *to) {
  const uint64_t *at = from, *end = to;
  uint64_t any = 0;
  for (; end - at >= 8; at += 8) {
    any = at[0] | at[1] | at[2] | at[3] | at[4] | at[5] | at[6] | at[7];
    if (any != 0) {
      return false;
    }
  }
  for (; at < end; at++) {
    any |= *at;
  }
  return any == 0;
}
