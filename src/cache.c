#include "cache.h"

#include "arena.h"
#include "os.h"
#include "pagemap.h"
#include "run.h"
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
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    HAK_ASSERT(!heap->bin[c].head && !heap->info[c].current && !heap->info[c].outgoing);
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

/* Without a function: the heap's thread did not survive a fork. */
static void return_chain(hak_heap_t *heap, uint32_t cls, hak_free_block_t *chain, const char *function) {
  if (hak_class_is_run(cls)) {
    hak_run_return(chain, heap->key, cls, function);
  } else {
    hak_slab_return(chain, heap->key, function);
  }
}

/* To a thread that allocates, if there may be one; else back. */
static void pass_on(hak_heap_t *heap, uint32_t cls, hak_free_block_t *chain) {
  if (!hak_class_is_run(cls) && !heap->heap_shrinks) {
    chain = hak_transfer_put(cls, chain, heap->key, "free");
  }
  return_chain(heap, cls, chain, "free");
}

/* All but the `keep` newest blocks leave the list. */
static hak_free_block_t *cut_older(hak_heap_t *heap, uint32_t cls, int32_t keep, const char *function) {
  hak_bin_t *bin = &heap->bin[cls];
  hak_bin_info_t *info = &heap->info[cls];
  hak_free_block_t *older = bin->head, *last = NULL;
  int32_t kept = 0;
  for (; kept < keep && older; kept++) {
    if (!hak_is_linked(older, heap->key)) {
      hak_misuse(function, HAK_MISUSE_CORRUPTED, older);
    }
    last = older;
    older = older->link;
  }
  if (last) {
    hak_link(last, NULL, heap->key);
  } else {
    bin->head = NULL;
  }
  if (!info->closed) {
    hak_bin_set_room(bin, hak_bin_capacity(info) - kept);
  }
  return older;
}

static hak_free_block_t *cut_outgoing(hak_bin_info_t *info) {
  hak_free_block_t *chain = info->outgoing;
  info->outgoing = NULL;
  info->outgoing_count = 0;
  return chain;
}

static void flush_class(hak_heap_t *heap, uint32_t cls, const char *function) {
  hak_bin_info_t *info = &heap->info[cls];
  return_chain(heap, cls, cut_older(heap, cls, 0, function), function);
  return_chain(heap, cls, cut_outgoing(info), function);
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

/* A block that is in the chain twice is met a second time with its own address for a tag. */
static void verify_chain(hak_free_block_t *chain, uint32_t cls, uintptr_t key, const char *function) {
  for (hak_free_block_t *block = chain; block; block = block->link) {
    if (!hak_is_linked(block, key)) {
      hak_slab_damaged(function, block);
    }
    if (!hak_class_is_run(cls) && hak_slab_holds(block)) {
      hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
    }
    block->tag = (uintptr_t)block;
  }
  for (hak_free_block_t *block = chain; block; block = block->link) {
    block->tag = (uintptr_t)block->link ^ key;
  }
}

void hak_cache_verify(hak_heap_t *heap, const char *function) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    verify_chain(heap->bin[c].head, c, heap->key, function);
    verify_chain(heap->info[c].outgoing, c, heap->key, function);
  }
}

bool hak_cache_holds(const hak_heap_t *heap, uint32_t cls, const hak_free_block_t *wanted) {
  const hak_free_block_t *block = heap->bin[cls].head;
  while (block && block != wanted && hak_is_linked(block, heap->key)) {
    block = block->link;
  }
  return block == wanted;
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
}

static void open_bin(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  if (info->closed) {
    return_chain(heap, cls, cut_outgoing(info), "free");
    info->closed = false;
    hak_bin_set_room(&heap->bin[cls], hak_bin_capacity(info));
  }
}

static hak_chain_t fetch(hak_heap_t *heap, uint32_t cls, uint32_t want) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_chain_t chain = hak_transfer_take(cls, want, heap->key);
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
  if (!block) {
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

void hak_cache_overflow(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block) {
  hak_bin_info_t *info = &heap->info[cls];
  look_around(heap);
  if (info->closed) {
    info->busy = true;
    pass_on(heap, cls, cut_outgoing(info));
    hak_cache_free_outgoing(heap, cls, block);
    return;
  }
  int32_t capacity = hak_bin_capacity(info);
  hak_overflow_t what = hak_policy_overflow(heap, cls);
  if (what == HAK_OVERFLOW_NONE) {
    hak_cache_return_one(cls, block);
    if (info->current && hak_slab_is_whole(info->current)) {
      drop_current(info);
    }
    return;
  }
  if (what == HAK_OVERFLOW_FREES) {
    drop_current(info);
  }
  if (what == HAK_OVERFLOW_FREES || hak_bin_room(&heap->bin[cls]) <= 0) {
    pass_on(heap, cls, cut_older(heap, cls, what == HAK_OVERFLOW_FREES ? 0 : capacity / 2, "free"));
  }
  hak_bin_push(heap, &heap->bin[cls], block);
}

void hak_cache_check(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_bin_info_t *info = &heap->info[c];
    int32_t blocks = 0;
    uint32_t outgoing = 0;
    for (hak_free_block_t *block = heap->bin[c].head; block; block = block->link, blocks++) {
      HAK_VERIFY(hak_class_at(block) == c && hak_is_start_in_class(block, c) && hak_is_linked(block, heap->key));
    }
    for (hak_free_block_t *block = info->outgoing; block; block = block->link, outgoing++) {
      HAK_VERIFY(hak_class_at(block) == c && hak_is_linked(block, heap->key));
    }
    HAK_VERIFY(outgoing == info->outgoing_count);
    HAK_VERIFY(info->closed ? blocks == 0 : blocks == hak_bin_capacity(info) - hak_bin_room(&heap->bin[c]));
    HAK_VERIFY(!info->current || (atomic_load(&info->current->control) & HAK_SLAB_CURRENT));
  }
}
