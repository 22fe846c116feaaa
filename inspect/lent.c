#include "lent.h"

#include "arena.h"
#include "cache.h"
#include "pagemap.h"
#include "slab.h"

enum {
  LENT_BYTES = 512 << 10, /* at most, and */
  LENT_SHARE = 256,       /* this part of what is in use */
};

static _Atomic size_t lent_bytes;

void hak_lent_is_back(hak_bin_info_t *info, uint32_t cls) {
  atomic_fetch_sub_explicit(&lent_bytes, (size_t)info->lent * hak_class_sizes[cls], memory_order_relaxed);
  info->lent = 0;
}

bool hak_lend(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t bytes = (size_t)blocks * hak_class_sizes[cls];
  size_t most = LENT_BYTES + (hak_arena_used_slices() << HAK_SLICE_SHIFT) / LENT_SHARE;
  if (!info->adaptive || info->closed || atomic_load_explicit(&lent_bytes, memory_order_relaxed) + bytes > most) {
    return false;
  }
  atomic_fetch_add_explicit(&lent_bytes, bytes, memory_order_relaxed);
  info->lent += blocks;
  hak_policy_set_capacity(heap, cls, hak_bin_capacity(info) + (int32_t)blocks);
  return true;
}

void hak_lent_take_back(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  int32_t least = hak_bin_capacity(info) - (int32_t)info->lent, start = hak_policy_start_capacity(cls);
  if (info->lent > 0 && start < hak_bin_capacity(info)) {
    hak_policy_set_capacity(heap, cls, least > start ? least : start);
  }
  hak_lent_is_back(info, cls);
}

void hak_grant_some(hak_heap_t *heap, uint32_t cls, int32_t blocks) {
  hak_bin_t *bin = &heap->bin[cls];
  hak_free_block_t *first = bin->head, *last = first;
  if (hak_bin_room(bin) + blocks == hak_bin_capacity(&heap->info[cls])) { /* all */
    hak_bin_set_room(bin, hak_bin_room(bin) + blocks);
    hak_grant_hand_over(bin, &heap->grant[cls - 1], first, HAK_LIST_END, blocks);
    return;
  }
  for (int32_t i = 1; i < blocks; i++) {
    if (!hak_is_linked(last, heap->key)) {
      hak_slab_damaged("malloc", last);
    }
    last = last->link;
  }
  if (!hak_is_linked(last, heap->key)) {
    hak_slab_damaged("malloc", last);
  }
  hak_free_block_t *rest = last->link;
  hak_bin_set_room(bin, hak_bin_room(bin) + blocks);
  hak_grant_hand_over(bin, &heap->grant[cls - 1], first, rest, blocks);
  hak_link(last, HAK_LIST_END, heap->key);
}

bool hak_grant_cut(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t left = info->sample_left;
  if (left == 0 || heap->bin[cls].head == HAK_LIST_END ||
      (uint32_t)(hak_bin_capacity(info) - hak_bin_room(&heap->bin[cls])) <= left) {
    return false;
  }
  info->sample_left = 0;
  hak_grant_some(heap, cls, (int32_t)left);
  return true;
}

void hak_grant_check(hak_heap_t *heap, uint32_t cls) {
  if (cls <= HAK_GRANT_LAST) {
    uint32_t left = hak_grant_left(&heap->grant[cls - 1]);
    for (hak_free_block_t *block = heap->grant[cls - 1].head; block != HAK_LIST_END; block = block->link, left--) {
      HAK_VERIFY(hak_class_at(block) == cls && hak_is_linked(block, heap->key) && left > 0);
    }
    HAK_VERIFY(left == 0);
  }
}
