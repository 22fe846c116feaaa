/* Duty: the seal at the end of each small block of the hardened profile, and the profile's settings.
 * Data: hak_hard is written once, at start-up, before the profile is in force. Layers below: geometry.
 *
 *   block  [ asked bytes of the program ][ tail ][ seal ]     block bytes = a class of the heap
 *
 * The seal is a word that depends on two secrets, the block's address and the bytes that the program asked for. So it
 * tells the exact size, and whether the block is live or free. The tail repeats one byte of it, which is never 0. A
 * seal is written by one store, so any thread may read its neighbour's. */
#pragma once

#include "geometry.h"

#include <string.h>

typedef struct hak_hard {
  bool on;                  /* the profile is in force */
  bool zero;                /* freed blocks are zeroed, and checked when they are handed out */
  bool neighbours;          /* a free checks the seal before the block */
  bool sizes;               /* sized frees must name the size that was asked for */
  bool at_exit;             /* the end of the process checks every block */
  bool random;              /* blocks are handed out in random order */
  uint32_t cleared;         /* least bytes that calloc zeroes; under the profile a seal may lie there, and it is 0 */
  uint32_t delay_bytes;     /* freed bytes of a class that wait, in order, and as many again in random order */
  uint32_t delayed_regions; /* freed large blocks whose addresses wait; 0: large blocks have no guards */
  uint64_t secrets[2];
} hak_hard_t;

extern hak_hard_t hak_hard;

enum {
  HAK_SEAL_BYTES = 8,
  HAK_SEAL_TAIL = 32,      /* most bytes of a tail */
  HAK_SEAL_FREED = 0xffff, /* instead of a size */
  HAK_SEALED_MAX = HAK_SMALL_MAX - HAK_SEAL_BYTES,
};

_Static_assert(HAK_SEALED_MAX < HAK_SEAL_FREED, "a size fits 16 bits");

HAK_INLINE _Atomic uint64_t *hak_seal_at(const void *block, size_t size) {
  return (_Atomic uint64_t *)((uintptr_t)block + size - HAK_SEAL_BYTES); /* NOLINT(performance-no-int-to-ptr) */
}

/* Hides the size, so that no byte of a seal is the same in each process. */
HAK_INLINE uint64_t hak_seal_mask(const void *block) {
  return ((uintptr_t)block >> HAK_BLOCK_SHIFT ^ hak_hard.secrets[1]) << 48;
}

/* The low 48 bits of a product fold both of its halves; its first byte in memory is never 0. */
HAK_INLINE uint64_t hak_seal_of(const void *block, uint32_t asked) {
  unsigned __int128 product =
      (unsigned __int128)((uintptr_t)block ^ hak_hard.secrets[0]) * (hak_hard.secrets[1] + 2 * (uint64_t)asked);
  uint64_t mixed = ((uint64_t)product ^ (uint64_t)(product >> 64)) & 0xffffffffffff;
  mixed |= (mixed & 0xff) == 0;
  return mixed | ((uint64_t)asked << 48 ^ hak_seal_mask(block));
}

HAK_INLINE uint64_t hak_seal_load(const void *block, size_t size) {
  return atomic_load_explicit(hak_seal_at(block, size), memory_order_relaxed);
}

HAK_INLINE void hak_seal_store(void *block, size_t size, uint64_t seal) {
  atomic_store_explicit(hak_seal_at(block, size), seal, memory_order_relaxed);
}

/* False: no seal of a live block is there. */
HAK_INLINE bool hak_seal_read(const void *block, size_t size, uint32_t *asked) {
  uint64_t seal = hak_seal_load(block, size);
  *asked = (uint32_t)((seal ^ hak_seal_mask(block)) >> 48);
  return HAK_LIKELY(*asked <= size - HAK_SEAL_BYTES && seal == hak_seal_of(block, *asked));
}

HAK_INLINE bool hak_seal_is_freed(const void *block, size_t size) {
  return hak_seal_load(block, size) == hak_seal_of(block, HAK_SEAL_FREED);
}

/* Whether the block is live, free, or was never handed out. */
HAK_INLINE bool hak_seal_is_whole(const void *block, size_t size) {
  uint64_t seal = hak_seal_load(block, size);
  return seal == 0 || seal == hak_seal_of(block, (uint32_t)((seal ^ hak_seal_mask(block)) >> 48));
}

/* The end of the bytes that the block's owner and its tail may have written. */
HAK_INLINE size_t hak_seal_end(size_t size, uint32_t asked) {
  size_t end = (size_t)asked + HAK_SEAL_TAIL;
  return end < size - HAK_SEAL_BYTES ? end : size - HAK_SEAL_BYTES;
}

HAK_INLINE uint64_t hak_seal_tail(uint64_t seal) {
  return (seal & 0xff) * 0x0101010101010101U;
}

/* Seal a block of zeros for a caller that asked for so many bytes. */
HAK_INLINE void hak_seal_put(void *block, size_t size, uint32_t asked) {
  uint64_t seal = hak_seal_of(block, asked), tail = hak_seal_tail(seal);
  size_t end = hak_seal_end(size, asked), at = asked;
  hak_seal_store(block, size, seal);
  for (; at + sizeof tail <= end; at += sizeof tail) {
    memcpy((char *)block + at, &tail, sizeof tail);
  }
  for (; at < end; at++) {
    ((unsigned char *)block)[at] = (unsigned char)tail;
  }
}

/* Whether the tail of a live block is as it was written. */
HAK_INLINE bool hak_seal_tail_is_whole(const void *block, size_t size, uint32_t asked) {
  uint64_t tail = hak_seal_tail(hak_seal_load(block, size)), differs = 0, word;
  size_t end = hak_seal_end(size, asked), at = asked;
  for (; at + sizeof word <= end; at += sizeof word) {
    memcpy(&word, (const char *)block + at, sizeof word);
    differs |= word ^ tail;
  }
  for (; at < end; at++) {
    differs |= (uint64_t)((const unsigned char *)block)[at] ^ (tail & 0xff);
  }
  return differs == 0;
}
