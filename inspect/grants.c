/* What the heap asks on the way to a block: how malloc gets blocks that were counted. A thread's grants are lists of
 * such blocks, which its bins fill. */
#include "grants.h"

#include "large.h"
#include "pagemap.h"
#include "profile.h"
#include "sample.h"
#include "slab.h"
#include "slots.h"

enum {
  GRANT_BLOCKS = 64,      /* worth a call: with fewer in its cycle a class asks for more, */
  GRANT_BYTES = 20 << 10, /* up to so many bytes of them, */
  GRANT_FIRST_BLOCKS = 8, /* a few first */
};

/* A tracer that comes starts to sample, where nobody did, until it goes. */
HAK_COLD static void follow_tracer(void) {
  static _Atomic bool started;
  bool wanted = hak_probe_alloc_semaphore != 0;
  if (atomic_exchange_explicit(&hak_probes_seen, wanted, memory_order_relaxed) == wanted) {
    return; /* another thread was first */
  }
  if (wanted && hak_sample_rate() == 0) {
    atomic_store_explicit(&started, hak_sample_start(HAK_SAMPLE_MEAN_USUAL), memory_order_relaxed);
  } else if (!wanted && atomic_exchange_explicit(&started, false, memory_order_relaxed)) {
    hak_sample_stop();
  }
}

static uint32_t blocks_in(const hak_heap_t *heap, uint32_t cls) {
  return (uint32_t)(hak_bin_capacity(&heap->info[cls]) -
                    atomic_load_explicit(&heap->bin[cls].room, memory_order_relaxed));
}

/* No block was granted: grant what lies in the bin, and take the first. NULL: it is not so easy. */
static void *grant_all(size_t bytes) {
  hak_heap_t *heap = hak_heap;
  uint32_t at = hak_small_code(bytes) / HAK_GRANT_WORDS; /* whose line of the table is at hand */
  if (HAK_UNLIKELY(heap->sample_setting != atomic_load_explicit(&hak_sample_request, memory_order_relaxed) ||
                   at >= HAK_GRANT_LAST)) {
    return NULL;
  }
  hak_grant_t *grant = &heap->grant[at];
  hak_bin_t *bin = &heap->bin[at + 1];
  hak_bin_info_t *info = &heap->info[at + 1];
  hak_free_block_t *block = bin->head, *next = block->link;
  uint32_t count = blocks_in(heap, at + 1);
  if (HAK_UNLIKELY(((uintptr_t)next ^ block->tag) != heap->key || grant->head != HAK_LIST_END ||
                   count < info->grant_least)) {
    return NULL;
  }
  if (HAK_UNLIKELY(count > info->sample_left)) { /* it is to be cut there; not if that is a long way to walk */
    if (info->sample_left <= HAK_GRANT_CUT_MOST) {
      return NULL;
    }
    info->sample_left--;
    bin->head = next;
    hak_bin_set_room(bin, hak_bin_room(bin) + 1);
  } else {
    info->sample_left -= count;
    hak_bin_set_room(bin, hak_bin_capacity(info));
    hak_grant_hand_over(bin, grant, next, HAK_LIST_END, (int32_t)count - 1);
  }
  info->busy = true;
  __builtin_prefetch(next);
  hak_mark_taken(block);
  return block;
}

static void check_linked(const hak_heap_t *heap, const hak_free_block_t *block) {
  if (!hak_is_linked(block, heap->key)) {
    hak_slab_damaged("malloc", block);
  }
}

/* The first blocks of the bin's list are granted, so many. */
static void grant_some(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_t *bin = &heap->bin[cls];
  hak_free_block_t *first = bin->head, *last = first, *rest = HAK_LIST_END;
  bool all = blocks == blocks_in(heap, cls);
  for (uint32_t i = 1; !all && i < blocks; i++) {
    check_linked(heap, last);
    last = last->link;
  }
  if (!all) {
    check_linked(heap, last);
    rest = last->link;
  }
  hak_bin_set_room(bin, hak_bin_room(bin) + (int32_t)blocks);
  hak_grant_hand_over(bin, &heap->grant[cls - 1], first, rest, (int32_t)blocks);
  if (!all) {
    hak_link(last, HAK_LIST_END, heap->key);
  }
}

/* Those before the one that is sampled. False: it is the next, or not among them. */
static bool grant_before_sample(hak_heap_t *heap, uint32_t cls) {
  uint32_t left = heap->info[cls].sample_left;
  if (left == 0 || heap->bin[cls].head == HAK_LIST_END || blocks_in(heap, cls) <= left) {
    return false;
  }
  heap->info[cls].sample_left = 0;
  grant_some(heap, cls, left);
  return true;
}

static void *sample_if_due(hak_heap_t *heap, void *block, uint32_t cls, size_t asked, size_t bytes, uint64_t setting) {
  void *sample = hak_sample_if_due(heap, block, cls, asked, bytes, setting);
  if (sample) {
    hak_profile_write_due();
  }
  return sample;
}

static void *alloc(size_t bytes) {
  if (HAK_UNLIKELY(hak_probes_changed())) {
    follow_tracer();
  }
  void *block = grant_all(bytes);
  if (HAK_LIKELY(block != NULL)) {
    return block;
  }
  uint64_t setting;
  uint32_t cls = hak_class_of(bytes);
  hak_heap_t *heap = hak_sample_catch_up(&setting);
  if (heap && cls <= HAK_GRANT_LAST && hak_sample_takes(setting)) {
    hak_grant_t *grant = &heap->grant[cls - 1];
    if (grant->head != HAK_LIST_END || grant_before_sample(heap, cls)) { /* or the table is being changed */
      block = hak_bin_pop(heap, (hak_bin_t *)(void *)grant);
      if (!block) {
        hak_slab_damaged("malloc", grant->head);
      }
      return block;
    }
  }
  return sample_if_due(heap, NULL, cls, bytes, hak_class_sizes[cls], setting);
}

/* A class with few blocks in its cycle gets more of them, step by step, as far as memory for that goes. */
static void ask_for_more(hak_heap_t *heap, uint32_t cls, uint32_t has) {
  uint32_t most = GRANT_BYTES / hak_class_sizes[cls], more = has + GRANT_FIRST_BLOCKS;
  hak_bin_info_t *info = &heap->info[cls];
  most = most < GRANT_BLOCKS ? most : GRANT_BLOCKS;
  info->grant_least = most;
  if (has >= most) {
    return;
  }
  more = more < most - has ? more : most - has;
  if (!hak_policy_lend(heap, cls, more)) {
    info->grant_least = 1;
  } else if (heap->bin[cls].head == HAK_LIST_END) {
    hak_cache_stock(heap, cls, more);
  }
}

/* The bin was filled for a block: grant what is left. */
static void grant_rest(hak_heap_t *heap, uint32_t cls) {
  if (cls > HAK_GRANT_LAST || !hak_sample_takes(heap->sample_setting) || heap->grant[cls - 1].head != HAK_LIST_END) {
    return;
  }
  hak_bin_info_t *info = &heap->info[cls];
  bool closed = atomic_load_explicit(&info->closed, memory_order_relaxed);
  uint32_t has = closed ? 0 : blocks_in(heap, cls);
  uint32_t granted = has < info->sample_left ? has : info->sample_left;
  if (granted > 0) {
    info->sample_left -= granted;
    grant_some(heap, cls, granted);
  }
  if (!closed) {
    ask_for_more(heap, cls, has + 1);
  }
}

static void allocated(void *block, size_t bytes) {
  uint64_t setting;
  uint32_t cls = hak_class_at(block);
  if (HAK_UNLIKELY(hak_probes_changed())) {
    follow_tracer();
  }
  if (hak_class_is_run(cls) || cls == HAK_CLASS_HUGE) {
    hak_heap_t *heap = hak_sample_catch_up(&setting);
    sample_if_due(heap, block, cls, bytes, hak_large_usable(block, cls), setting);
  } else {
    grant_rest(hak_heap, hak_class_of(bytes));
  }
}

static void check(void) {
  hak_record_check();
  hak_slot_check();
}

const hak_hook_t hak_inspection = {.alloc = alloc,
                                   .allocated = allocated,
                                   .refused = hak_profile_refused,
                                   .free = hak_sample_free,
                                   .usable = hak_sample_usable,
                                   .lift = hak_sample_lift,
                                   .put_back = hak_sample_put_back,
                                   .check = check};
