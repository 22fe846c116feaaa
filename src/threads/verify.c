/* Looks for free blocks in slabs and in a thread's cache, and for damaged ones. It changes nothing. */
#include "cache.h"

#include "depot.h"

#include <string.h>

bool hak_verify_slab_holds(const void *block) {
  hak_slab_t *slab = hak_pagemap_slab(block);
  uint32_t index = hak_block_index(block, slab->inverse);
  return atomic_load_explicit(&slab->bits[index / 64], memory_order_relaxed) >> index % 64 & 1;
}

void hak_verify_slab_expect_out(const void *block, const char *function) {
  const hak_slab_t *slab = hak_pagemap_slab(block);
  if (hak_block_index(block, slab->inverse) >= hak_slab_bump(slab)) {
    hak_misuse(function, HAK_MISUSE_INVALID, block);
  }
  if (hak_verify_slab_holds(block)) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
}

/* A function that visits blocks of a heap. It returns the block at which it stops; NULL: it visited all. */
typedef const hak_free_block_t *(*visit_t)(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls,
                                           const hak_free_block_t *but);

/* Stop at a damaged block. Sound blocks are marked as taken, so that a block in two places is found. */
static const hak_free_block_t *verify_some(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls,
                                           const hak_free_block_t *but) {
  (void)but;
  for (uint32_t i = 0; i < count; i++) {
    if (!hak_is_marked_free(blocks[i]) || (!hak_class_is_run(cls) && hak_verify_slab_holds(blocks[i]))) {
      return blocks[i];
    }
    hak_mark_taken(blocks[i]);
  }
  return NULL;
}

/* Mark the visited blocks as free again, except the damaged one: a handler of the report may allocate. */
static const hak_free_block_t *verified_some(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls,
                                             const hak_free_block_t *but) {
  (void)cls;
  for (uint32_t i = 0; i < count; i++) {
    if (blocks[i] != but) {
      hak_mark_free(blocks[i]);
    }
  }
  return NULL;
}

/* Visit a stack: the blocks in the magazine, then the newest one. */
static const hak_free_block_t *visit_stack(visit_t visit, const hak_magazine_t *magazine, uint32_t count,
                                           hak_free_block_t *head, uint32_t cls, const hak_free_block_t *but) {
  if (count == 0 || head == HAK_NO_BLOCK) {
    return NULL;
  }
  const hak_free_block_t *found = visit(hak_magazine_slots(magazine) + 1, count - 1, cls, but);
  return found ? found : visit(&head, 1, cls, but);
}

static const hak_free_block_t *visit_all(const hak_heap_t *heap, visit_t visit, const hak_free_block_t *but) {
  const hak_free_block_t *found = NULL;
  for (uint32_t c = hak_bin_next_touched(heap, 0); c < HAK_CLASS_COUNT && !found; c = hak_bin_next_touched(heap, c)) {
    const hak_bin_info_t *info = &heap->info[c];
    found = visit_stack(visit, &info->magazine, hak_bin_blocks(heap, c), heap->bin[c].head, c, but);
    found = found ? found : visit(hak_magazine_slots(&info->magazine) + 1, info->remote_count, c, but);
    if (!found && c <= HAK_BATCH_LAST) {
      found = visit_stack(visit, &info->batch_magazine, hak_bin_batch_left(heap, c), heap->batch[c - 1].head, c, but);
    }
  }
  return found;
}

const hak_free_block_t *hak_verify_find_damaged(const hak_heap_t *heap) {
  const hak_free_block_t *found = visit_all(heap, verify_some, NULL);
  visit_all(heap, verified_some, found);
  return found;
}

void hak_verify_damaged(const hak_free_block_t *block, const char *function) {
  if (hak_is_marked_free(block)) { /* it is in a slab, too */
    hak_misuse_met(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  hak_freed_damaged(function, block);
}

/* Few blocks are compared with each other instead of being marked, since in the child of a fork each write to a block
 * would copy its page. A chain holds the blocks whose addresses have the same hash. */
enum { FEW = 256, CHAINS = 256 };
typedef struct few {
  hak_free_block_t *block[FEW];
  uint16_t before[FEW], last[CHAINS]; /* the block before it in its chain; the last one: number + 1, 0 for none */
  uint32_t count;
} few_t;

/* Put the block into its chain. True: it is there already. */
static bool is_twice(few_t *few, uint32_t i) {
  uint32_t chain = (uint32_t)((uintptr_t)few->block[i] >> HAK_BLOCK_SHIFT) * 0x9e3779b1U >> 24;
  bool twice = false;
  for (uint32_t other = few->last[chain]; other && !twice; other = few->before[other - 1]) {
    twice = few->block[other - 1] == few->block[i];
  }
  few->before[i] = few->last[chain];
  few->last[chain] = (uint16_t)(i + 1);
  return twice;
}
_Static_assert(CHAINS == 1 << (32 - 24), "the upper bits of a product name a chain");

/* False: they are too many. */
static bool add_few(few_t *few, hak_free_block_t *const *blocks, uint32_t count) {
  if (count > FEW - few->count) {
    return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    few->block[few->count++] = blocks[i];
  }
  return true;
}

static bool add_stack(few_t *few, const hak_magazine_t *magazine, uint32_t count, hak_free_block_t *head) {
  return count == 0 || head == HAK_NO_BLOCK ||
         (add_few(few, hak_magazine_slots(magazine) + 1, count - 1) && add_few(few, &head, 1));
}

/* False: the class has too many blocks. */
static bool find_damaged_few(const hak_heap_t *heap, uint32_t c, const hak_free_block_t **found) {
  const hak_bin_info_t *info = &heap->info[c];
  few_t few;
  memset(few.last, 0, sizeof few.last);
  few.count = 0;
  if (!add_stack(&few, &info->magazine, hak_bin_blocks(heap, c), heap->bin[c].head) ||
      !add_few(&few, hak_magazine_slots(&info->magazine) + 1, info->remote_count) ||
      (c <= HAK_BATCH_LAST &&
       !add_stack(&few, &info->batch_magazine, hak_bin_batch_left(heap, c), heap->batch[c - 1].head))) {
    return false;
  }
  for (uint32_t i = 0; i < few.count && !*found; i++) {
    const hak_free_block_t *block = few.block[i];
    bool in_slab = !hak_class_is_run(c) && hak_verify_slab_holds(block);
    *found = !hak_is_marked_free(block) || in_slab || is_twice(&few, i) ? block : NULL;
  }
  return true;
}

/* False: some class has too many blocks, or there may be blocks in the depot. */
static bool verify_few(const hak_heap_t *heap, const hak_free_block_t **found) {
  bool few = !hak_depot_is_used();
  for (uint32_t c = hak_bin_next_touched(heap, 0); c < HAK_CLASS_COUNT && few && !*found;
       c = hak_bin_next_touched(heap, c)) {
    few = find_damaged_few(heap, c, found);
  }
  return few;
}

void hak_verify_cache(const hak_heap_t *heap, const char *function) {
  const hak_free_block_t *in_few = NULL;
  if (verify_few(heap, &in_few)) {
    if (in_few) {
      hak_verify_damaged(in_few, function);
    }
    return;
  }
  const hak_free_block_t *found = visit_all(heap, verify_some, NULL);
  if (!found) {
    hak_depot_verify(function);
  }
  visit_all(heap, verified_some, found);
  if (found) {
    hak_verify_damaged(found, function);
  }
}

/* It checks only while no other thread takes blocks. If a thread began during the check, the bytes found may belong to
 * a block of it, and count for nothing. */
void hak_verify_edges(const void *block, uint32_t cls) {
  hak_misuse_t reason;
  if (hak_policy_caches_open() == 1 && hak_edges_find_damage(block, cls, &reason) && hak_policy_caches_open() == 1) {
    hak_misuse_met("free", reason, block);
  }
}

static uint32_t remote_slots(const hak_heap_t *heap, uint32_t cls) {
  return heap->info[cls].remote_count + 1;
}

/* Search the slots below the one of the newest block, which may be stale. The owner may exchange the magazine for a
 * smaller one at any time. If the magazine is still the same after the count, all these slots held free blocks. */
static bool magazine_holds(const hak_magazine_t *magazine, uint32_t (*count_of)(const hak_heap_t *heap, uint32_t cls),
                           const hak_heap_t *heap, uint32_t cls, const void *wanted) {
  hak_free_block_t **slots = hak_magazine_slots(magazine);
  atomic_thread_fence(memory_order_acquire);
  uint32_t count = count_of(heap, cls);
  atomic_thread_fence(memory_order_acquire);
  bool held = false;
  if (hak_magazine_slots(magazine) == slots) {
    for (uint32_t i = 1; i < count && !held; i++) {
      held = slots[i] == wanted;
    }
  }
  return held;
}

bool hak_verify_cache_holds(const hak_heap_t *heap, uint32_t cls, const void *wanted) {
  const hak_bin_info_t *info = &heap->info[cls];
  bool batch_magazine =
      cls <= HAK_BATCH_LAST && (heap->batch[cls - 1].head == wanted ||
                                magazine_holds(&info->batch_magazine, hak_bin_batch_left, heap, cls, wanted));
  return batch_magazine || heap->bin[cls].head == wanted ||
         magazine_holds(&info->magazine, hak_bin_blocks, heap, cls, wanted) ||
         magazine_holds(&info->magazine, remote_slots, heap, cls, wanted);
}

void hak_verify_check(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_bin_info_t *info = &heap->info[c];
    uint32_t count = heap->bin[c].head != HAK_NO_BLOCK ? hak_bin_blocks(heap, c) : 0;
    HAK_VERIFY(count == hak_bin_blocks(heap, c) && (!info->buffers_remote || count == 0));
    for (uint32_t i = 1; i <= count; i++) {
      const hak_free_block_t *block = i < count ? hak_magazine_slots(&info->magazine)[i] : heap->bin[c].head;
      HAK_VERIFY(hak_pagemap_class(block) == c && hak_pagemap_is_start(block, c));
    }
    HAK_VERIFY(!info->current || (atomic_load(&info->current->control) & HAK_SLAB_CURRENT));
  }
  hak_verify_cache(heap, "hak_check");
}
