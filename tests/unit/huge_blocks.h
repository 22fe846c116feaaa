/* Huge blocks for tests: each is checked and filled as it is taken. */
#pragma once

#include "blocks/blocks.h"

#include "child.h"
#include "prng.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

static inline char *alloc_aligned(size_t bytes, size_t align) {
  bool zeroed;
  char *block = hak_huge_alloc(bytes, align, &zeroed);
  CHECK(block != NULL && hak_pagemap_class(block) == HAK_CLASS_HUGE && (uintptr_t)block % align == 0);
  CHECK((uintptr_t)block % HAK_SLICE_BYTES == 0);
  CHECK(hak_huge_usable(block) >= bytes && hak_huge_usable(block) <= hak_round_up(bytes + !bytes, hak_os_page_bytes()));
  CHECK(!zeroed || all_zero(block, hak_huge_usable(block)));
  pattern_fill(block, bytes, bytes);
  return block;
}

static inline char *alloc(size_t bytes) {
  return alloc_aligned(bytes, HAK_BLOCK_MIN);
}

static inline void nothing_is_left(void) {
  CHECK(hak_huge_live == 0 && hak_huge_live_bytes == 0 && hak_retain_used_slices() == 0);
  slices_add_up();
}
