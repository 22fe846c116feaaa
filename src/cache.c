#include "cache.h"

#include "arena.h"
#include "large.h"
#include "os.h"
#include "pagemap.h"
#include "transfer.h"

enum {
  OUTGOING_BATCH = 64,
  EVENTS_PER_LOOK = 64,
  LOOK_MS = 250,
  SHRINKS_SLICES = 16, /* fewer in use than at the last look: the heap shrinks */
};

static _Atomic uint32_t flush_epoch;

void hak_cache_open(hak_heap_t *heap) {
  hak_policy_close(heap);
  heap->bin[0].head = HAK_LIST_END; /* nobody's: where malloc is to take the slow path, it looks there */
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    HAK_ASSERT(!heap->info[c].current);
    heap->bin[c].head = heap->info[c].outgoing = HAK_LIST_END;
    if (c <= HAK_GRANT_LAST) {
      heap->grant[c - 1].head = HAK_LIST_END;
    }
    heap->bin[c].inverse = hak_class_inverses[c];
    heap->bin[c].limit = hak_class_limits[c];
    hak_policy_open(heap, c);
  }
}

static void drop_current(hak_bin_info_t *info) {
  hak_slab_t *slab = info->current;
  if (slab) {
    info->current = NULL;
    hak_slab_drop(slab);
  }
}

/* Up to `most` blocks of the chain. Returns the rest of it. Without a function: the heap's thread did not survive a
 * fork. */
static hak_free_block_t *return_some(hak_heap_t *heap, uint32_t cls, hak_free_block_t *chain, uint32_t most,
                                     const char *function) {
  if (hak_class_is_run(cls)) {
    return hak_run_return(chain, most, heap->key, cls, function);
  }
  return hak_slab_return(chain, most, heap->key, function);
}

/* The same, to another thread that allocates, if there may be one; else back. */
static hak_free_block_t *pass_on(hak_heap_t *heap, uint32_t cls, hak_free_block_t *chain, uint32_t most) {
  if (!hak_class_is_run(cls) && !heap->heap_shrinks && hak_caches_open() > 1) {
    chain = hak_transfer_put(cls, chain, &most, heap->key, "free");
  }
  return return_some(heap, cls, chain, most, "free");
}

static hak_free_block_t *cut_list(hak_heap_t *heap, uint32_t cls) {
  hak_bin_t *bin = &heap->bin[cls];
  hak_bin_info_t *info = &heap->info[cls];
  hak_free_block_t *chain = bin->head;
  bin->head = HAK_LIST_END;
  hak_bin_set_room(bin, info->closed ? 0 : hak_bin_capacity(info));
  return chain;
}

/* The newest blocks leave the list, all but `keep`: what stays behind them is neither walked nor touched. */
static void shorten(hak_heap_t *heap, uint32_t cls, int32_t keep) {
  hak_bin_t *bin = &heap->bin[cls];
  int32_t capacity = hak_bin_capacity(&heap->info[cls]), count = capacity - hak_bin_room(bin);
  hak_free_block_t *chain = bin->head;
  bin->head = HAK_LIST_END; /* a fork in the middle loses them in the child, and has none twice */
  bin->head = pass_on(heap, cls, chain, (uint32_t)(count - keep));
  hak_bin_set_room(bin, capacity - keep);
}

static hak_free_block_t *cut_outgoing(hak_bin_info_t *info) {
  hak_free_block_t *chain = info->outgoing;
  info->outgoing = HAK_LIST_END;
  info->outgoing_count = 0;
  return chain;
}

/* What was not handed out was not counted either. */
hak_free_block_t *hak_cache_cut_grant(hak_heap_t *heap, uint32_t cls) {
  if (cls > HAK_GRANT_LAST) {
    return HAK_LIST_END;
  }
  hak_grant_t *grant = &heap->grant[cls - 1];
  hak_free_block_t *chain = grant->head;
  grant->head = HAK_LIST_END;
  heap->info[cls].sample_left += hak_grant_left(grant);
  atomic_store_explicit(&grant->room, 0, memory_order_relaxed);
  return chain;
}

static void flush_class(hak_heap_t *heap, uint32_t cls, const char *function) {
  hak_bin_info_t *info = &heap->info[cls];
  return_some(heap, cls, cut_list(heap, cls), UINT32_MAX, function);
  return_some(heap, cls, hak_cache_cut_grant(heap, cls), UINT32_MAX, function);
  return_some(heap, cls, cut_outgoing(info), UINT32_MAX, function);
  drop_current(info);
}

void hak_cache_flush(hak_heap_t *heap, const char *function) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    flush_class(heap, c, function);
  }
}

void hak_cache_close(hak_heap_t *heap, const char *function) {
  hak_cache_flush(heap, function);
  hak_policy_close(heap);
}

/* A block that was freed twice leads in a circle, which no count of blocks ends. */
_Noreturn static void report_circle(hak_free_block_t *block, const char *function) {
  for (; block->tag != (uintptr_t)block; block = block->link) {
    block->tag = (uintptr_t)block;
  }
  hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
}

static void verify_chain(hak_free_block_t *chain, uint32_t cls, uint32_t most, uintptr_t key, const char *function) {
  for (hak_free_block_t *block = chain; block != HAK_LIST_END; block = block->link, most--) {
    if (!hak_is_linked(block, key)) {
      hak_slab_damaged(function, block);
    }
    if (!hak_class_is_run(cls) && hak_slab_holds(block)) {
      hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
    }
    if (most == 0) {
      report_circle(chain, function);
    }
  }
}

/* Blocks that a list may have: in a signal handler it may just have got more than its capacity, or only half of it. */
static uint32_t longest(const hak_heap_t *heap, uint32_t cls) {
  return (uint32_t)hak_bin_capacity(&heap->info[cls]) * 2 + HAK_BLOCKS_MAX;
}

void hak_cache_verify(hak_heap_t *heap, const char *function) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    uint32_t most = longest(heap, c);
    verify_chain(heap->bin[c].head, c, most, heap->key, function);
    if (c <= HAK_GRANT_LAST) {
      verify_chain(heap->grant[c - 1].head, c, most, heap->key, function);
    }
    verify_chain(heap->info[c].outgoing, c, most, heap->key, function);
  }
}

static bool chain_holds(const hak_heap_t *heap, uint32_t cls, const hak_free_block_t *block,
                        const hak_free_block_t *wanted) {
  uint32_t left = longest(heap, cls); /* a circle has no end */
  while (left-- > 0 && block != wanted && hak_is_linked(block, heap->key)) {
    block = block->link;
  }
  return block == wanted;
}

bool hak_cache_holds(const hak_heap_t *heap, uint32_t cls, const hak_free_block_t *wanted) {
  bool granted = cls <= HAK_GRANT_LAST && chain_holds(heap, cls, heap->grant[cls - 1].head, wanted);
  return granted || chain_holds(heap, cls, heap->bin[cls].head, wanted);
}

void hak_cache_request_flush(void) {
  atomic_fetch_add_explicit(&flush_epoch, 1, memory_order_relaxed);
}

/* A class that the thread did not touch since the last look holds slabs for nothing. */
static void return_idle_lists(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_bin_t *bin = &heap->bin[c];
    hak_bin_info_t *info = &heap->info[c];
    if (!info->busy && bin->head == info->seen_head && hak_bin_room(bin) == info->seen_room) {
      flush_class(heap, c, "free");
      hak_policy_idle(heap, c);
    }
    info->busy = false;
    info->seen_head = bin->head;
    info->seen_room = hak_bin_room(bin);
  }
}

void hak_cache_look_at_clock(hak_heap_t *heap) {
  uint64_t now_ms = hak_os_now_ms();
  if (now_ms - heap->looked_ms >= LOOK_MS) {
    heap->looked_ms = now_ms;
    if (hak_arena_decay(now_ms)) {
      hak_slab_decay();
      hak_transfer_flush(true);
    }
    return_idle_lists(heap);
  }
}

/* Now and then, on the way to or from the slabs. */
static void look_around(hak_heap_t *heap) {
  uint32_t epoch = atomic_load_explicit(&flush_epoch, memory_order_relaxed);
  if (HAK_UNLIKELY(epoch != heap->flush_seen)) {
    heap->flush_seen = epoch;
    hak_cache_flush(heap, "free");
  }
  if (++heap->events % EVENTS_PER_LOOK == 0) {
    size_t used = hak_arena_used_slices();
    heap->heap_shrinks = used + SHRINKS_SLICES <= heap->used_seen;
    heap->used_seen = used;
    hak_slab_sweep_step();
    hak_cache_look_at_clock(heap);
  }
}

static void open_bin(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  if (info->closed) {
    return_some(heap, cls, cut_outgoing(info), UINT32_MAX, "free");
    info->closed = false;
    hak_bin_set_room(&heap->bin[cls], hak_bin_capacity(info));
  }
}

static hak_chain_t fetch(hak_heap_t *heap, uint32_t cls, uint32_t want) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_chain_t chain = hak_transfer_take(cls, want, heap->key, "malloc");
  while (chain.count == 0) {
    if (!info->current && !(info->current = hak_slab_acquire(cls))) {
      break;
    }
    chain = hak_slab_take(info->current, want, heap->key);
    if (chain.count == 0 || !hak_policy_keeps_current(info)) {
      drop_current(info);
    }
  }
  return chain;
}

static void *refill_run(hak_heap_t *heap, uint32_t cls, bool *zeroed) {
  hak_policy_refill(&heap->info[cls], cls);
  void *block = hak_run_take(cls, HAK_BLOCK_MIN, zeroed);
  if (block) {
    hak_policy_fetched(heap, cls, 1);
  }
  return block;
}

void hak_cache_stock(hak_heap_t *heap, uint32_t cls, uint32_t want) {
  hak_bin_t *bin = &heap->bin[cls];
  hak_chain_t chain = fetch(heap, cls, want);
  bin->head = chain.first;
  hak_bin_set_room(bin, hak_bin_room(bin) - (int32_t)chain.count);
}

void *hak_cache_refill(hak_heap_t *heap, uint32_t cls, size_t bytes, bool *zeroed) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_bin_t *bin = &heap->bin[cls];
  *zeroed = false;
  look_around(heap);
  atomic_store_explicit(&info->asked_bytes, info->asked_bytes + bytes, memory_order_relaxed);
  atomic_store_explicit(&info->asked_count, info->asked_count + 1, memory_order_relaxed);
  info->busy = true;
  if (hak_class_is_run(cls)) {
    return refill_run(heap, cls, zeroed);
  }
  if (hak_policy_is_off(info)) {
    return hak_slab_take_one(cls);
  }
  open_bin(heap, cls);
  hak_chain_t chain = fetch(heap, cls, hak_policy_refill(info, cls));
  hak_free_block_t *block = chain.first;
  if (chain.count == 0) {
    return NULL;
  }
  bin->head = block->link;
  hak_bin_set_room(bin, hak_bin_room(bin) - (int32_t)chain.count + 1);
  hak_mark_taken(block);
  hak_policy_fetched(heap, cls, chain.count);
  return block;
}

bool hak_cache_free_outgoing(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block) {
  hak_bin_info_t *info = &heap->info[cls];
  if (!info->closed || info->outgoing == block || info->outgoing_count >= OUTGOING_BATCH) {
    return false;
  }
  hak_link(block, info->outgoing, heap->key);
  info->outgoing = block;
  info->outgoing_count++;
  return true;
}

void hak_cache_return_one(uint32_t cls, hak_free_block_t *block) {
  if (hak_class_is_run(cls)) {
    hak_run_give(block, cls, "free");
  } else {
    hak_slab_return_one(block, "free");
  }
}

/* On the way to it other blocks may leave the thread, `block` not among them: it is about to be freed, unless that
 * happens for the second time. */
void hak_cache_overflow(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_bin_t *bin = &heap->bin[cls];
  uintptr_t tag = block->tag; /* of a block that leaves a list it changes, and where that was a run, its class */
  hak_overflow_t what = HAK_OVERFLOW_HALF;
  look_around(heap);
  if (info->closed) {
    info->busy = true;
    pass_on(heap, cls, cut_outgoing(info), UINT32_MAX);
  } else {
    int32_t half = hak_bin_capacity(info) / 2;
    what = hak_policy_overflow(heap, cls);
    if (what == HAK_OVERFLOW_FREES) {
      drop_current(info);
      shorten(heap, cls, 0);
    } else if (what == HAK_OVERFLOW_HALF && hak_bin_room(bin) <= 0) {
      shorten(heap, cls, half);
    }
  }
  if (hak_class_at(block) != cls || block->tag != tag || bin->head == block) {
    hak_misuse("free", HAK_MISUSE_DOUBLE_FREE, block);
  }
  if (what == HAK_OVERFLOW_NONE) {
    hak_cache_return_one(cls, block);
    if (info->current && hak_slab_is_whole(info->current)) {
      drop_current(info);
    }
  } else if (!hak_cache_free_outgoing(heap, cls, block)) { /* the list is not closed */
    hak_bin_push(heap, bin, block);
  }
}

/* As many blocks as its room says, and of the class. */
static void check_grant(hak_heap_t *heap, uint32_t cls) {
  if (cls <= HAK_GRANT_LAST) {
    uint32_t left = hak_grant_left(&heap->grant[cls - 1]);
    for (hak_free_block_t *block = heap->grant[cls - 1].head; block != HAK_LIST_END; block = block->link, left--) {
      HAK_VERIFY(hak_class_at(block) == cls && hak_is_linked(block, heap->key) && left > 0);
    }
    HAK_VERIFY(left == 0);
  }
}

void hak_cache_check(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_bin_info_t *info = &heap->info[c];
    int32_t blocks = 0;
    uint32_t outgoing = 0;
    for (hak_free_block_t *block = heap->bin[c].head; block != HAK_LIST_END; block = block->link, blocks++) {
      HAK_VERIFY(hak_class_at(block) == c && hak_is_start_in_class(block, c) && hak_is_linked(block, heap->key));
    }
    for (hak_free_block_t *block = info->outgoing; block != HAK_LIST_END; block = block->link, outgoing++) {
      HAK_VERIFY(hak_class_at(block) == c && hak_is_linked(block, heap->key));
    }
    HAK_VERIFY(outgoing == info->outgoing_count);
    check_grant(heap, c);
    HAK_VERIFY(info->closed ? blocks == 0 : blocks == hak_bin_capacity(info) - hak_bin_room(&heap->bin[c]));
    HAK_VERIFY(!info->current || (atomic_load(&info->current->control) & HAK_SLAB_CURRENT));
  }
}
