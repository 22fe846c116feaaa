/* Duty: the key and the report of free blocks. For the hardened profile, check that free blocks are as the profile left
 * them (zeros and a seal, in a slab also a tag), and decide whether an empty slab keeps its class.
 * Data: one switch. Layers below: types, seal, lock. */
#pragma once

#include "pages/pages.h"
#include "seal.h"

/* Start-up: make the key of free blocks. Threads may call this repeatedly; the first call decides. */
void hak_freed_start(void);
/* Report a free block without its tag, and abort. The block was freed twice if its tag says that it was handed out
 * elsewhere; else the program wrote to it after the free. Returns in the cases of hak_misuse_met. */
HAK_COLD void hak_freed_damaged(const char *function, const hak_free_block_t *block);
/* Take one block, marked as taken, without a thread cache. NULL: no memory. */
void *hak_freed_take_one(uint32_t kind);

/* From this size on, a call with wider registers is faster. */
enum { HAK_FREED_LARGE = 2048 };

/* Whether a free block was not written to. `tagged`: a free block of a slab, with a tag in its first word. */
HAK_INLINE bool hak_freed_is_clean(const void *block, size_t size, bool tagged) {
  const hak_vector_t *at = block, *last = at + size / sizeof *at - 1;
  uint64_t rest = at < last || !tagged ? hak_seal_word(last, 0) : 0; /* beside the seal */
  hak_vector_t any = {0, 0}, more = any;
  if (tagged && at < last) {
    rest |= hak_seal_word(at++, 1);
  }
  if (HAK_UNLIKELY(size >= HAK_FREED_LARGE) && hak_hard.zero) {
    rest |= !hak_move_is_zero(at, (size_t)(last - at) * sizeof *at);
    at = last;
  }
  for (const hak_vector_t *end = last - 3; at < end; at += 4) {
    any |= at[0];
    more |= at[1];
    any |= at[2];
    more |= at[3];
  }
  for (; at < last; at++) {
    any |= *at;
  }
  any |= more;
  return !hak_hard.zero || (any[0] | any[1] | rest) == 0;
}

/* All of a slab's blocks are free. Returns whether the slab keeps its class. `swept`: its pages were just discarded, so
 * there is nothing to check. If a block was written to, unlocks and aborts. */
HAK_NOINLINE bool hak_freed_keeps_class(const hak_slab_t *slab, hak_lock_t *lock, bool swept);
/* Number of threads that find memory short: while there are some, no slab keeps its class. */
extern _Atomic int hak_freed_releasing;
/* All blocks in bytes [from, to) of the slab are free, and their pages are about to be discarded. Aborts if a block was
 * written to. */
HAK_NOINLINE void hak_freed_expect(const hak_slab_t *slab, size_t from, size_t to);
