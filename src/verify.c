/* Checks of free blocks, in a slab and in a thread's cache. They change nothing. */
#include "cache.h"

#include "depot.h"
#include "pagemap.h"
#include "slab.h"

bool hak_slab_holds(const void *block) {
  hak_slab_t *slab = hak_slab_at(block);
  uint32_t index = hak_block_index(block, slab->inverse);
  return atomic_load_explicit(&slab->bits[index / 64], memory_order_relaxed) >> index % 64 & 1;
}

void hak_slab_expect_out(const void *block, const char *function) {
  const hak_slab_t *slab = hak_slab_at(block);
  if (hak_block_index(block, slab->inverse) >= hak_slab_carved(slab)) {
    hak_misuse(function, HAK_MISUSE_INVALID, block);
  }
  if (hak_slab_holds(block)) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
}

/* Mark the blocks as taken meanwhile, so that a block in two places is met twice. */
static void verify_some(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function) {
  for (uint32_t i = 0; i < count; i++) {
    if (!hak_is_marked_free(blocks[i])) {
      hak_slab_damaged(function, blocks[i]);
    }
    if (!hak_class_is_run(cls) && hak_slab_holds(blocks[i])) {
      hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, blocks[i]);
    }
    hak_mark_taken(blocks[i]);
  }
}

/* The end of that. */
static void verified_some(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function) {
  (void)cls, (void)function;
  for (uint32_t i = 0; i < count; i++) {
    hak_mark_free(blocks[i]);
  }
}

typedef void (*visit_t)(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function);

/* Visit a stack of blocks: all below the newest, and the newest if there is one. */
static void visit_stack(visit_t visit, const hak_magazine_t *magazine, uint32_t count, hak_free_block_t *head,
                        uint32_t cls, const char *function) {
  if (count > 0 && head != HAK_NO_BLOCK) {
    visit(hak_magazine_slots(magazine) + 1, count - 1, cls, function);
    visit(&head, 1, cls, function);
  }
}

static void visit_all(const hak_heap_t *heap, visit_t visit, const char *function) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    const hak_bin_info_t *info = &heap->info[c];
    visit_stack(visit, &info->magazine, hak_bin_blocks(heap, c), heap->bin[c].head, c, function);
    visit(hak_magazine_slots(&info->magazine) + 1, info->outgoing, c, function);
    if (c <= HAK_GRANT_LAST) {
      visit_stack(visit, &info->granted, hak_grant_left(heap, c), heap->grant[c - 1].head, c, function);
    }
  }
}

void hak_cache_verify_alone(const hak_heap_t *heap, const char *function) {
  visit_all(heap, verify_some, function);
  visit_all(heap, verified_some, function);
}

void hak_cache_verify(const hak_heap_t *heap, const char *function) {
  visit_all(heap, verify_some, function);
  hak_depot_verify(function);
  visit_all(heap, verified_some, function);
}

static uint32_t outgoing_slots(const hak_heap_t *heap, uint32_t cls) {
  return heap->info[cls].outgoing + 1;
}

/* Search the slots below the count. The slot of a stack's newest block is stale. The heap's owner may meanwhile replace
 * its magazine with a smaller one or none. If the magazine stayed until its blocks were counted, these slots held only
 * free blocks at some moment since. */
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

bool hak_cache_holds(const hak_heap_t *heap, uint32_t cls, const void *wanted) {
  const hak_bin_info_t *info = &heap->info[cls];
  bool granted = cls <= HAK_GRANT_LAST && (heap->grant[cls - 1].head == wanted ||
                                           magazine_holds(&info->granted, hak_grant_left, heap, cls, wanted));
  return granted || heap->bin[cls].head == wanted ||
         magazine_holds(&info->magazine, hak_bin_blocks, heap, cls, wanted) ||
         magazine_holds(&info->magazine, outgoing_slots, heap, cls, wanted);
}

void hak_cache_check(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_bin_info_t *info = &heap->info[c];
    uint32_t count = heap->bin[c].head != HAK_NO_BLOCK ? hak_bin_blocks(heap, c) : 0;
    HAK_VERIFY(count == hak_bin_blocks(heap, c) && (!info->closed || count == 0));
    for (uint32_t i = 1; i <= count; i++) {
      const hak_free_block_t *block = i < count ? hak_magazine_slots(&info->magazine)[i] : heap->bin[c].head;
      HAK_VERIFY(hak_class_at(block) == c && hak_is_start_in_class(block, c));
    }
    HAK_VERIFY(!info->current || (atomic_load(&info->current->control) & HAK_SLAB_CURRENT));
  }
  hak_cache_verify(heap, "hak_check");
}
