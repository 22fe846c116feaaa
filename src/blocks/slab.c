/* Slabs: blocks of one class, with one bit for each block. cache.c and depot.c stand above, arena.c below. */
#include "slab.h"

#include "freed.h"
#include "gap.h"
#include "mixed.h"

#include <string.h>

hak_slab_class_t hak_slab_classes[HAK_SLAB_KINDS] HAK_LARGE_DATA;
_Atomic size_t hak_slabs_listed[HAK_SLABS_LISTS];
_Atomic uint64_t hak_slabs_made[HAK_SLAB_KINDS / HAK_RUN_FIRST];
_Atomic uintptr_t hak_key;
const hak_free_block_t hak_no_block;

static hak_slab_class_t *class_of(const hak_slab_t *slab) {
  bool data = atomic_load_explicit(&slab->data, memory_order_relaxed);
  return &hak_slab_classes[hak_slab_kind(slab->cls, data)];
}

static void link_locked(hak_slab_t *slab) {
  hak_slab_class_t *class = class_of(slab);
  hak_slab_t **first = &class->list[slab->list].first, **last = &class->list[slab->list].last;
  slab->next = NULL;
  slab->prev = *last;
  __atomic_store_n(*last ? &(*last)->next : first, slab, __ATOMIC_RELAXED); /* hak_sweep_is_listed reads it */
  *last = slab;
  atomic_fetch_add_explicit(&hak_slabs_listed[slab->list], 1, memory_order_relaxed);
}

static void unlink_locked(hak_slab_t *slab) {
  hak_slab_class_t *class = class_of(slab);
  __atomic_store_n(slab->prev ? &slab->prev->next : &class->list[slab->list].first, slab->next, __ATOMIC_RELAXED);
  *(slab->next ? &slab->next->prev : &class->list[slab->list].last) = slab->prev;
  slab->next = slab->prev = NULL;
  atomic_fetch_sub_explicit(&hak_slabs_listed[slab->list], 1, memory_order_relaxed);
}

/* Count the bits that are set; stops once it has found `enough`. */
static uint32_t bits_set(const hak_slab_t *slab, uint32_t enough) {
  uint32_t count = 0;
  for (uint32_t w = 0; w * 64 < slab->blocks && count < enough; w++) {
    count += hak_count_bits(atomic_load_explicit(&slab->bits[w], memory_order_relaxed));
  }
  return count;
}

/* The slab has free blocks: put it into its list. Unlocks. True: it became sparse. */
static bool list_and_unlock(hak_slab_t *slab, hak_slab_class_t *class, uint32_t control) {
  bool listed = control & HAK_SLAB_LISTED;
  if (!listed && slab->list == HAK_SLABS_DENSE) {
    atomic_store_explicit(&slab->sparse_from, hak_slab_sparse_from(hak_slab_bump(slab)), memory_order_relaxed);
  }
  bool sparse = control >> HAK_SLAB_COUNT_SHIFT >= atomic_load_explicit(&slab->sparse_from, memory_order_relaxed);
  bool moves = !listed || (sparse && slab->list != HAK_SLABS_SPARSE);
  if (listed && moves) {
    unlink_locked(slab);
  }
  if (moves) {
    class->sparse += sparse && slab->list == HAK_SLABS_DENSE;
    slab->list = sparse ? HAK_SLABS_SPARSE : slab->list;
    atomic_fetch_or_explicit(&slab->control, HAK_SLAB_LISTED, memory_order_relaxed);
    link_locked(slab);
  }
  hak_unlock(&class->lock);
  return sparse && moves;
}

/* The slab just got blocks back, or lost CURRENT: put it where its state says. Unlocks. */
static void settle_and_unlock(hak_slab_t *slab, hak_slab_class_t *class, hak_slab_rest_t *rest) {
  uint32_t control = atomic_load_explicit(&slab->control, memory_order_acquire);
  uint32_t count = control >> HAK_SLAB_COUNT_SHIFT, bump = hak_slab_bump(slab);
  /* It looks at the bits, because the count differs while a thread returns blocks, and after a fork at that moment. */
  if ((control & HAK_SLAB_CURRENT) || (bump == slab->blocks && bits_set(slab, 1U + slab->fenced) == slab->fenced)) {
    hak_unlock(&class->lock); /* detached: the next return lists it */
    return;
  }
  bool empty = count == bump && bits_set(slab, bump) == bump;
  bool swept = slab->list == HAK_SLABS_SWEPT && !(control & HAK_SLAB_LISTED); /* just now */
  if (empty && !(HAK_UNLIKELY(hak_hard.on) && hak_freed_keeps_class(slab, &class->lock, swept))) {
    if (control & HAK_SLAB_LISTED) {
      class->left += slab->list != HAK_SLABS_DENSE;
      unlink_locked(slab);
    }
    atomic_store_explicit(&slab->control, 0, memory_order_relaxed);
    char *base = slab->base;
    size_t slices = slab->slices;
    bool guarded = slab->guarded;
    hak_pagemap_set_class(base, slices, HAK_CLASS_NONE);
    /* under the class's lock, so that a concurrent return finds the slab gone */
    atomic_store_explicit(&slab->cls, HAK_CLASS_NONE, memory_order_relaxed);
    hak_unlock(&class->lock);
    slices += HAK_UNLIKELY(guarded) && hak_gap_open_behind(base, slices) ? 1 : 0;
    rest->slices += hak_arena_put(base, slices) ? slices : 0;
    return;
  }
  rest->sparse |= list_and_unlock(slab, class, control);
}

/* Make a slab that is CURRENT, for the caller alone. */
static hak_slab_t *make_slab(uint32_t kind) {
  bool zeroed;
  uint32_t cls = hak_slab_kind_class(kind);
  /* If memory is low, a slab may have a single slice. Only sizes that divide a slice get such slabs, since the bins'
   * limits assume whole slabs. Requests of other sizes get a block of the next class that divides it (slow.c). */
  bool low = hak_mapping_is_low(), divides = HAK_SLICE_BYTES % hak_class_sizes[cls] == 0;
  size_t slices = low && divides ? 1 : hak_slab_slices(cls);
  bool power_of_two = (hak_class_sizes[cls] & (hak_class_sizes[cls] - 1)) == 0;
  char *base = HAK_UNLIKELY(hak_hard.guards > 0) && !low ? hak_gap_take_slab(slices, &zeroed) : NULL;
  bool guarded = base != NULL;
  if (!base && (!low || power_of_two)) {
    base = hak_arena_take(slices, HAK_SLAB_SLICES, &zeroed);
  }
  if (!base && divides && slices > 1) {
    slices = 1;
    base = hak_arena_take(slices, HAK_SLAB_SLICES, &zeroed);
  }
  if (!base) {
    return NULL;
  }
  hak_slab_t *slab = hak_pagemap_slab(base);
  if (HAK_UNLIKELY(hak_hard.on) && !zeroed) {
    memset(base, 0, slices << HAK_SLICE_SHIFT);
    zeroed = true;
  }
  hak_huge_pages_fill(base, zeroed ? slices : 0, hak_class_sizes[cls]); /* each block gets its tag */
  slab->block_bytes = hak_class_sizes[cls];
  slab->inverse = hak_class_inverses[cls];
  slab->blocks = (uint32_t)(slices << HAK_SLICE_SHIFT) / hak_class_sizes[cls];
  slab->slices = (uint8_t)slices;
  slab->base = base;
  slab->word = 0;
  slab->discarded = slab->unsealed = false;
  slab->zeroed = zeroed;
  slab->list = HAK_SLABS_DENSE;
  slab->fenced = hak_hard.on && slab->blocks > 1;
  slab->guarded = guarded;
  atomic_store_explicit(&slab->data, kind != cls, memory_order_relaxed);
  atomic_store_explicit(&slab->bump, slab->fenced, memory_order_relaxed);
  for (uint32_t w = 0; w < HAK_BITS_WORDS && w * 64 < slab->blocks; w++) {
    atomic_store_explicit(&slab->bits[w], w == 0 && slab->fenced, memory_order_relaxed);
  }
  uint32_t count = (uint32_t)slab->fenced << HAK_SLAB_COUNT_SHIFT;
  atomic_store_explicit(&slab->control, HAK_SLAB_CURRENT | count, memory_order_relaxed);
  atomic_store_explicit(&slab->cls, (uint8_t)cls, memory_order_release); /* pairs with return_bits */
  hak_pagemap_set_class(base, slices < HAK_SLAB_SLICES ? slices : HAK_SLAB_SLICES,
                        cls); /* no block begins behind these */
  return slab;
}

void hak_slab_hold_locked(hak_slab_t *slab, uint8_t list) {
  unlink_locked(slab);
  slab->list = list;
  atomic_fetch_xor_explicit(&slab->control, HAK_SLAB_LISTED | HAK_SLAB_CURRENT, memory_order_acquire);
}

hak_slab_t *hak_slab_acquire(uint32_t kind) {
  hak_slab_class_t *class = &hak_slab_classes[kind];
  hak_slab_note_made(kind);
  hak_lock(&class->lock);
  hak_slab_t *slab = NULL;
  for (int list = 0; list < HAK_SLABS_LISTS && !(slab = class->list[list].first); list++) {
  }
  if (slab) {
    class->left += slab->list != HAK_SLABS_DENSE;
    hak_slab_hold_locked(slab, HAK_SLABS_DENSE);
  }
  hak_unlock(&class->lock);
  return slab ? slab : make_slab(kind);
}

void hak_slab_drop(hak_slab_t *slab) {
  hak_slab_class_t *class = class_of(slab);
  hak_slab_rest_t rest = {0, false};
  hak_lock(&class->lock);
  atomic_fetch_and_explicit(&slab->control, ~(uint32_t)HAK_SLAB_CURRENT, memory_order_acq_rel);
  settle_and_unlock(slab, class, &rest);
  if (rest.slices > 0) {
    hak_purge_after_free(rest.slices);
  }
}

/* Blocks on discarded pages lost their tags, and get them again. Returns the number of blocks. */
static uint32_t blocks_of_bits(const hak_slab_t *slab, uint32_t w, uint64_t mask, hak_free_block_t **blocks) {
  char *word_base = slab->base + (size_t)w * 64 * slab->block_bytes;
  uint32_t count = 0;
  while (mask) {
    unsigned bit = 63 - (unsigned)__builtin_clzll(mask);
    hak_free_block_t *block = (hak_free_block_t *)(void *)(word_base + (size_t)bit * slab->block_bytes);
    if (HAK_UNLIKELY(slab->discarded) && block->tag == 0) {
      hak_mark_free(block);
    }
    blocks[count++] = block;
    mask &= ~(1ULL << bit);
  }
  return count;
}

/* The bits of `mask` without the lowest `keep` ones. */
static uint64_t above_lowest(uint64_t mask, uint32_t keep) {
  while (keep-- > 0 && mask) {
    mask &= mask - 1;
  }
  return mask;
}

void hak_slab_put_back(hak_slab_t *slab, uint32_t w, uint64_t bits, const char *function) {
  uint64_t before = atomic_fetch_or_explicit(&slab->bits[w], bits, memory_order_release); /* pairs with take_bits */
  uint64_t twice = before & bits;
  if (HAK_UNLIKELY(twice)) {
    uint32_t index = w * 64 + (uint32_t)__builtin_ctzll(twice);
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, slab->base + (size_t)index * slab->block_bytes);
  }
}

static uint64_t whole_groups(uint64_t mask, uint32_t group) {
  uint64_t all = ((uint64_t)1 << group) - 1, starts = ~0ULL / all;
  for (uint32_t i = 0; i < group; i++) {
    starts &= mask >> i;
  }
  return starts * all;
}

/* Take blocks in whole groups only. */
static uint32_t take_bits(hak_slab_t *slab, hak_free_block_t **blocks, uint32_t want, uint32_t group) {
  uint32_t words = (slab->blocks + 63) / 64, count = 0;
  for (uint32_t i = 0; i < words && count < want; i++) {
    uint32_t w = slab->word + i < words ? slab->word + i : slab->word + i - words;
    uint64_t usable = w == 0 && slab->fenced ? ~(uint64_t)1 : ~(uint64_t)0;
    if (whole_groups(atomic_load_explicit(&slab->bits[w], memory_order_relaxed) & usable, group) == 0) {
      continue;
    }
    /* acquire: pairs with hak_slab_put_back */
    uint64_t all = atomic_exchange_explicit(&slab->bits[w], 0, memory_order_acquire);
    uint64_t mask = whole_groups(all & usable, group);
    uint32_t room = want - count;
    if (hak_count_bits(mask) > room) {
      mask ^= above_lowest(mask, room);
    }
    if (mask != all) {
      hak_slab_put_back(slab, w, all ^ mask, "malloc");
    }
    count += blocks_of_bits(slab, w, mask, blocks + count);
    if (count >= want) {
      slab->word = (uint8_t)w;
    }
  }
  if (count) {
    atomic_fetch_sub_explicit(&slab->control, count << HAK_SLAB_COUNT_SHIFT, memory_order_relaxed);
  }
  return count;
}

/* Take new blocks. This is the first touch of their memory: it must read as zeros, unless the program wrote there. */
static uint32_t take_new(hak_slab_t *slab, hak_free_block_t **blocks, uint32_t want) {
  uint32_t first = hak_slab_bump(slab), left = slab->blocks - first, count = want < left ? want : left;
  atomic_store_explicit(&slab->bump, first + count, memory_order_relaxed);
  hak_fork_fence();
  size_t block_bytes = slab->block_bytes;
  char *at = slab->base + (first + count) * block_bytes;
  uintptr_t key = atomic_load_explicit(&hak_key, memory_order_relaxed);
  bool zeroed = slab->zeroed;
  for (uint32_t i = 0; i < count; i++) {
    at -= block_bytes;
    hak_free_block_t *block = (hak_free_block_t *)(void *)at;
    block->untouched = 0; /* written first, so that the page fault is a write fault */
    atomic_signal_fence(memory_order_seq_cst);
    if (HAK_UNLIKELY(zeroed && block->tag != 0)) {
      hak_misuse_met("malloc", HAK_MISUSE_CORRUPTED, block);
    }
    block->tag = (uintptr_t)block ^ key;
    blocks[i] = block;
  }
  return count;
}

uint32_t hak_slab_take(hak_slab_t *slab, hak_free_block_t **blocks, uint32_t want, bool lines) {
  uint32_t group = lines ? hak_slab_blocks_of_lines(slab) : 1, whole = want > group ? want - want % group : want;
  uint32_t count = take_bits(slab, blocks, whole, group);
  count = count ? count : take_new(slab, blocks, whole);
  return count || group == 1 ? count : take_bits(slab, blocks, want, 1);
}

/* Set the bits of returned blocks in one word of a slab, and update the slab's state. */
static void return_bits(hak_slab_t *slab, uint32_t w, uint64_t mask, const char *function, hak_slab_rest_t *rest) {
  uint32_t cls = atomic_load_explicit(&slab->cls, memory_order_relaxed);
  hak_slab_put_back(slab, w, mask, function);
  uint32_t n = (mask & (mask - 1)) ? hak_count_bits(mask) : 1;
  uint32_t control = atomic_fetch_add_explicit(&slab->control, n << HAK_SLAB_COUNT_SHIFT, memory_order_acq_rel);
  if (control & HAK_SLAB_CURRENT) {
    return;
  }
  /* From here on another thread may release the slab. Its descriptor stays, and the slab's new state is set under the
   * lock. */
  uint32_t sparse_from = atomic_load_explicit(&slab->sparse_from, memory_order_relaxed);
  uint32_t count_before = control >> HAK_SLAB_COUNT_SHIFT, count = count_before + n;
  bool becomes_sparse = count_before < sparse_from && count >= sparse_from;
  if (!(control & HAK_SLAB_LISTED) || becomes_sparse || count == hak_slab_bump(slab)) {
    bool data = atomic_load_explicit(&slab->data, memory_order_relaxed);
    hak_slab_class_t *class = &hak_slab_classes[hak_slab_kind(cls, data)];
    hak_lock(&class->lock);
    if (atomic_load_explicit(&slab->cls, memory_order_acquire) != cls ||
        class_of(slab) != class) { /* released or remade: pairs with make_slab */
      hak_unlock(&class->lock);
    } else {
      settle_and_unlock(slab, class, rest);
    }
  }
}

/* The slab of a block, checked to be of this class, or mixed. */
static hak_slab_t *home_of(const hak_free_block_t *block, uint32_t cls, const char *function) {
  hak_slab_t *slab = hak_pagemap_slab(block);
  if (HAK_UNLIKELY(atomic_load_explicit(&slab->cls, memory_order_relaxed) != cls) && !hak_slab_is_mixed(slab)) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  return slab;
}

/* Returned blocks are gathered by word of bits, so that neighbours share one atomic operation. */
enum { GATHER_WORDS = 16, FEW = 4 }; /* words gathered at a time; the number for few blocks */
typedef struct gathered {
  uintptr_t place; /* the descriptor's address, with the word's number in its zero bits */
  uint64_t mask;   /* 0: the entry is empty */
} gathered_t;
_Static_assert(_Alignof(hak_slab_t) >= HAK_BITS_WORDS, "a word's number fits");

static void give_back(gathered_t *gathered, const char *function, hak_slab_rest_t *rest) {
  if (gathered->mask) {
    uintptr_t word = gathered->place % HAK_BITS_WORDS;
    hak_slab_t *slab = (hak_slab_t *)(gathered->place - word); /* NOLINT(performance-no-int-to-ptr) */
    return_bits(slab, (uint32_t)word, gathered->mask, function, rest);
    gathered->mask = 0;
  }
}

HAK_NOINLINE hak_slab_rest_t hak_slab_put(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls,
                                          const char *function) {
  hak_slab_rest_t rest = {0, false};
  gathered_t gathered[GATHER_WORDS];
  const size_t words = count > FEW ? GATHER_WORDS : FEW;
  for (size_t i = 0; i < words; i++) {
    gathered[i] = (gathered_t){0, 0};
  }
  const uint32_t inverse = hak_class_inverses[cls];
  hak_slab_t *slab = NULL;
  uintptr_t of_slab = 0; /* of the last block: neighbours in a magazine are often neighbours in memory */
  for (uint32_t i = 0; i < count;) {
    if ((uintptr_t)blocks[i] >> HAK_SLAB_SHIFT != of_slab) {
      of_slab = (uintptr_t)blocks[i] >> HAK_SLAB_SHIFT;
      slab = home_of(blocks[i], cls, function);
    }
    if (hak_slab_is_mixed(slab)) {
      rest.slices += hak_mixed_put(slab, blocks[i++], cls, function);
      of_slab = 0; /* it may be gone */
      continue;
    }
    uint32_t index = hak_block_index(blocks[i], inverse), bump = hak_slab_bump(slab), word = index / 64;
    if (HAK_UNLIKELY(index >= bump)) {
      hak_misuse(function, HAK_MISUSE_INVALID, blocks[i]);
    }
    uintptr_t place = (uintptr_t)slab | word;
    gathered_t *at = &gathered[(place ^ of_slab) & (words - 1)];
    if (at->place != place || (at->mask >> index % 64 & 1)) {
      give_back(at, function, &rest);
      at->place = place;
    }
    uint64_t mask = at->mask;
    do {
      mask |= 1ULL << index % 64;
      bool near = ++i < count && (uintptr_t)blocks[i] >> HAK_SLAB_SHIFT == of_slab;
      index = near ? hak_block_index(blocks[i], inverse) : bump;
    } while (index < bump && index / 64 == word && !(mask >> index % 64 & 1));
    at->mask = mask;
  }
  for (size_t i = 0; i < words; i++) {
    give_back(&gathered[i], function, &rest);
  }
  return rest;
}

hak_slab_rest_t hak_slab_put_one(void *block, uint32_t cls, const char *function) {
  hak_slab_t *slab = home_of(block, cls, function);
  hak_slab_rest_t rest = {0, false};
  hak_mark_free(block);
  if (hak_slab_is_mixed(slab)) {
    rest.slices = hak_mixed_put(slab, block, cls, function);
    return rest;
  }
  uint32_t index = hak_block_index(block, slab->inverse);
  if (HAK_UNLIKELY(index >= hak_slab_bump(slab))) {
    hak_misuse(function, HAK_MISUSE_INVALID, block);
  }
  return_bits(slab, index / 64, 1ULL << index % 64, function, &rest);
  return rest;
}
