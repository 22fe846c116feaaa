/* Duty: the seal at the end of each small block of the hardened profile, and the profile's settings.
 * Data: hak_hard is written once, at start-up, before the profile is in force; its page is read-only afterwards. Layers
 * below: geometry.
 *
 *   block  [ asked bytes of the program ][ tail ][ seal ]     block bytes = a class of the heap
 *
 * The seal is a word that depends on secrets, the block's address and the bytes that the program asked for. So it tells
 * the exact size, and whether the block is live or free. The tail repeats the seal in whole words, with no byte of 0. A
 * seal is written by one store, so any thread may read the seal of a neighbour. */
#pragma once

#include "base/base.h"

#include <string.h>

typedef struct hak_hard {
  bool on;                  /* the profile is in force */
  bool zero;                /* freed blocks are zeroed, and checked when they are handed out */
  bool regions;             /* the memory of an empty slab goes back, but its addresses stay with its class */
  uint8_t guards;           /* one slab in this many has a slice without access behind it; 0: none */
  uint32_t delay_bytes;     /* freed bytes of each class that wait in order; as many again wait in random order */
  uint32_t delayed_regions; /* freed large blocks whose addresses wait; 0: large blocks have no guards */
  uint64_t tokens;          /* number of tokens, the lower half for types without pointers; 0: two, or no limit */
  uint64_t secrets[4];      /* all but the first are odd */
} hak_hard_t;

/* Fills a page, which nothing else shares. */
typedef union hak_hard_page {
  hak_hard_t is;
  char bytes[1 << HAK_PAGE_SHIFT];
} hak_hard_page_t;
extern hak_hard_page_t hak_hard_page;
#define hak_hard (hak_hard_page.is)

enum {
  HAK_SEAL_BYTES = 8,
  HAK_SEAL_TAIL_WORDS = 2,        /* most words of a tail; the first word may begin with bytes of the program */
  HAK_SEAL_HASH_BITS = 43,        /* the rest of a seal is a code of the block's state */
  HAK_SEAL_DATA = 1 << 20,        /* added to the size of blocks of types without pointers */
  HAK_SEAL_FREED = (1 << 21) - 1, /* instead of a size */
  HAK_SEALED_MAX = HAK_SMALL_MAX - HAK_SEAL_BYTES,
};
#define HAK_UNSEALED SIZE_MAX /* instead of the size of a block: it is no small block of the profile */

_Static_assert((int)HAK_CACHED_MAX <= (int)HAK_SEAL_DATA && HAK_SEALED_MAX < HAK_SEAL_FREED - HAK_SEAL_DATA &&
                   HAK_SEAL_FREED >> (64 - HAK_SEAL_HASH_BITS) == 0,
               "the two ranges of sizes, and one more number, fit the code");

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first word of a tail");

HAK_INLINE _Atomic uint64_t *hak_seal_at(const void *block, size_t size) {
  return (_Atomic uint64_t *)((uintptr_t)block + size - HAK_SEAL_BYTES); /* NOLINT(performance-no-int-to-ptr) */
}

HAK_INLINE uint64_t hak_seal_load(const void *block, size_t size) {
  return atomic_load_explicit(hak_seal_at(block, size), memory_order_relaxed);
}

HAK_INLINE void hak_seal_store(void *block, size_t size, uint64_t seal) {
  atomic_store_explicit(hak_seal_at(block, size), seal, memory_order_relaxed);
}

/* A hash of the block's address, from both halves of a product. All seals of the block are made of this hash. */
HAK_INLINE uint64_t hak_seal_base(const void *block) {
  unsigned __int128 product = (unsigned __int128)((uintptr_t)block ^ hak_hard.secrets[0]) * hak_hard.secrets[1];
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The seal: 43 bits of a hash that is never 0, and the code, masked with the hash of the address. The hash
 * multiplies the code by a secret, and folds both halves of a second product. So the seals of one block for several
 * codes do not give its seal for another code by addition or exclusive or. */
HAK_INLINE uint64_t hak_seal_of(uint64_t base, uint32_t code) {
  unsigned __int128 product = (unsigned __int128)(base ^ code * hak_hard.secrets[2]) * hak_hard.secrets[3];
  uint64_t mixed = (uint64_t)product ^ (uint64_t)(product >> 64), masked = base >> HAK_SEAL_HASH_BITS ^ code;
  return mixed >> (64 - HAK_SEAL_HASH_BITS) | 1 | masked << HAK_SEAL_HASH_BITS;
}

/* The code in a word, if the word is a seal: a size, perhaps with HAK_SEAL_DATA, or HAK_SEAL_FREED. */
HAK_INLINE uint32_t hak_seal_code(uint64_t base, uint64_t seal) {
  return (uint32_t)((seal ^ base) >> HAK_SEAL_HASH_BITS);
}

/* The contents of a live block's seal. */
typedef struct hak_sealed {
  uint64_t seal;
  uint32_t asked;
  bool data; /* of a type without pointers */
} hak_sealed_t;

/* False: no seal of a live block is there. */
HAK_INLINE bool hak_seal_read(const void *block, size_t size, uint64_t base, hak_sealed_t *sealed) {
  uint64_t seal = hak_seal_load(block, size);
  uint32_t code = hak_seal_code(base, seal);
  sealed->seal = seal;
  sealed->data = code >= HAK_SEAL_DATA;
  sealed->asked = sealed->data ? code - HAK_SEAL_DATA : code;
  bool fits = sealed->asked <= size - HAK_SEAL_BYTES && code != HAK_SEAL_FREED;
  return HAK_LIKELY(fits && seal == hak_seal_of(base, code));
}

/* Exchange a live block's seal for a free block's. False: another thread was first. */
HAK_INLINE bool hak_seal_free_shared(void *block, size_t size, uint64_t seal, uint64_t freed) {
  return atomic_compare_exchange_strong_explicit(hak_seal_at(block, size), &seal, freed, memory_order_acq_rel,
                                                 memory_order_relaxed);
}

HAK_INLINE bool hak_seal_is_freed(const void *block, size_t size) {
  return hak_seal_load(block, size) == hak_seal_of(hak_seal_base(block), HAK_SEAL_FREED);
}

/* Whether the block is live or free, or has no seal: it was never handed out, or lost its page. */
HAK_INLINE bool hak_seal_is_whole(const void *block, size_t size) {
  uint64_t seal = hak_seal_load(block, size), base = hak_seal_base(block);
  return seal == hak_seal_of(base, hak_seal_code(base, seal)) || seal == 0;
}

/* The end of the tail, in words from the block's start. Neither the program nor the tail wrote a word behind it. */
HAK_INLINE size_t hak_seal_end(size_t size, uint32_t asked) {
  size_t end = asked / 8 + HAK_SEAL_TAIL_WORDS, seal = size / 8 - 1;
  return end < seal ? end : seal;
}

HAK_INLINE uint64_t hak_seal_tail(uint64_t seal) {
  return seal | 0x0101010101010101U;
}

HAK_INLINE uint64_t hak_seal_word(const void *block, size_t at) {
  uint64_t word;
  memcpy(&word, (const char *)block + at * sizeof word, sizeof word);
  return word;
}

HAK_INLINE void hak_seal_put_word(void *block, size_t at, uint64_t word) {
  memcpy((char *)block + at * sizeof word, &word, sizeof word);
}

/* Seal a block for a caller that asked for so many bytes. */
HAK_INLINE void hak_seal_put(void *block, size_t size, uint64_t base, uint32_t asked, bool data) {
  uint64_t seal = hak_seal_of(base, asked + (data ? HAK_SEAL_DATA : 0)), tail = hak_seal_tail(seal);
  size_t at = asked / 8, end = hak_seal_end(size, asked);
  hak_seal_store(block, size, seal);
  if (at < end) {
    uint32_t shift = asked % 8 * 8;
    hak_seal_put_word(block, at, (hak_seal_word(block, at) & ~(~(uint64_t)0 << shift)) | tail << shift);
    if (end - 1 > at) {
      hak_seal_put_word(block, at + 1, tail);
    }
  }
}

/* Whether the tail of a live block is as it was written. */
HAK_INLINE bool hak_seal_tail_is_whole(const void *block, size_t size, uint32_t asked) {
  uint64_t tail = hak_seal_tail(hak_seal_load(block, size));
  size_t at = asked / 8, end = hak_seal_end(size, asked);
  if (at == end) {
    return true;
  }
  uint32_t shift = asked % 8 * 8;
  uint64_t differs = hak_seal_word(block, at) >> shift ^ tail << shift >> shift;
  return (differs | (end - 1 > at ? hak_seal_word(block, at + 1) ^ tail : 0)) == 0;
}

/* Margins of large blocks: the maximum of bytes beside a block whose contents are checked. */
enum { HAK_MARGIN_BEFORE = 256, HAK_MARGIN_BEHIND = 64 };

HAK_INLINE bool hak_seal_margin_is_filled(const char *from, size_t bytes, unsigned char with) {
  unsigned char differs = 0;
  for (size_t i = 0; i < bytes; i++) {
    differs |= (unsigned char)((unsigned char)from[i] ^ with);
  }
  return differs == 0;
}
