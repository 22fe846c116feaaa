/* Blocks of 48 KiB to 1 MiB: one run of slices each. cache.c stands above; arena.c stands below. */
#include "blocks.h"

#include "slab.h"

static size_t slices_of(uint32_t cls) {
  return hak_class_sizes[cls] >> HAK_SLICE_SHIFT;
}

void *hak_run_take(uint32_t cls, size_t align, bool *zeroed) {
  size_t align_slices = align > HAK_SLICE_BYTES ? align >> HAK_SLICE_SHIFT : 1;
  void *block = hak_arena_take_run(cls, align_slices, zeroed);
  if (block && !*zeroed) {
    hak_mark_taken(block); /* it may still carry the tag of an earlier block here */
  }
  return block;
}

void hak_run_give(void *block, uint32_t cls, const char *function) {
  if (HAK_UNLIKELY(!hak_arena_give_run(block, cls))) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
}

static void give_all(hak_free_block_t *const *blocks, uint32_t n, uint32_t cls, const char *function) {
  if (!hak_class_is_run(cls)) {
    hak_sweep_return(blocks, n, cls, function);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    hak_run_give(blocks[i], cls, function);
  }
}

void hak_run_return(hak_free_block_t *const *blocks, uint32_t n, uint32_t cls, const char *function) {
  if (HAK_LIKELY(function != NULL)) {
    give_all(blocks, n, cls, function);
    return;
  }
  for (uint32_t from = 0, to; from < n; from = to + 1) {
    for (to = from; to < n && hak_pagemap_class(blocks[to]) == cls && hak_is_marked_free(blocks[to]); to++) {
    }
    give_all(blocks + from, to - from, cls, NULL);
  }
}

bool hak_run_resize(void *block, uint32_t cls, uint32_t wanted) {
  size_t has = slices_of(cls), wants = slices_of(wanted);
  if (wants > has && !hak_arena_extend(block, has, wants - has)) {
    return false;
  }
  hak_arena_turn_run(block, cls, wanted);
  if (wants < has) {
    hak_arena_give((char *)block + (wants << HAK_SLICE_SHIFT), has - wants);
  }
  return true;
}
