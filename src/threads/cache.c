/* A thread's cache: refill, overflow, idle bins. fast.h stands above; depot, slabs and runs below. policy.c decides the
 * amounts. */
#include "cache.h"

#include "background.h"
#include "depot.h"

enum { REMOTE_BATCH = HAK_SLOW_START_BYTES / HAK_CACHE_LINE }; /* blocks that a remote-free buffer collects */

static _Atomic uint32_t flush_epoch;

static void drop_current(hak_bin_info_t *info) {
  hak_slab_t *slab = info->current;
  if (slab) {
    info->current = NULL;
    hak_slab_drop(slab);
  }
}

/* Whether other threads may want blocks that leave the bin. */
static bool passes_on(const hak_heap_t *heap, uint32_t cls) {
  return hak_policy_caches_open() > 1 && hak_policy_passes_on(heap, cls);
}

/* Put blocks into the depot for other threads, and return those that find no room. */
static void pass_on(const hak_heap_t *heap, uint32_t cls, hak_free_block_t *const *blocks, uint32_t count) {
  if (passes_on(heap, cls)) {
    count = hak_depot_put(cls, blocks, count);
  }
  hak_run_return(blocks, count, cls, "free");
}

/* Pass the newest blocks on, except `keep` of the oldest. */
static void shorten(hak_heap_t *heap, uint32_t cls, uint32_t keep) {
  uint32_t count = hak_bin_settle(heap, cls);
  if (count > keep) {
    hak_bin_lower(heap, cls, keep);
    pass_on(heap, cls, hak_bin_slots(heap, cls) + 1 + keep, count - keep);
  }
}

static uint32_t cut_remote(hak_bin_info_t *info) {
  return atomic_exchange_explicit(&info->remote_count, 0, memory_order_relaxed);
}

/* These blocks were not handed out, so the count to the next sample gets them back. */
void hak_cache_return_batch(hak_heap_t *heap, uint32_t cls, const char *function) {
  if (cls > HAK_BATCH_LAST) {
    return;
  }
  hak_batch_t *batch = &heap->batch[cls - 1];
  uint32_t count = batch->head != HAK_NO_BLOCK ? hak_bin_batch_left(heap, cls) : 0;
  hak_free_block_t **slots = hak_magazine_slots(&heap->info[cls].batch_magazine);
  if (count > 0) {
    slots[count] = batch->head;
    atomic_store_explicit(&batch->top, slots - 1, memory_order_relaxed);
    hak_fork_fence();
    batch->head = HAK_NO_BLOCK;
    heap->info[cls].sample_left += count;
    hak_run_return(slots + 1, count, cls, function);
  }
}

static void flush_class(hak_heap_t *heap, uint32_t cls, const char *function) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t count = hak_bin_settle(heap, cls);
  if (count > 0) {
    hak_bin_lower(heap, cls, 0);
    hak_run_return(hak_bin_slots(heap, cls) + 1, count, cls, function);
  }
  if (info->remote_count > 0) {
    hak_run_return(hak_bin_slots(heap, cls) + 1, cut_remote(info), cls, function);
  }
  hak_cache_return_batch(heap, cls, function);
  drop_current(info);
}

void hak_cache_flush(hak_heap_t *heap, const char *function) {
  for (uint32_t c = hak_bin_next_touched(heap, 0); c < HAK_CLASS_COUNT; c = hak_bin_next_touched(heap, c)) {
    flush_class(heap, c, function);
  }
  hak_mixed_leave(&heap->mixed);
  hak_hook_hardened.flush(heap, function);
}

static void drop_magazines(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  if (cls <= HAK_BATCH_LAST && info->batch_magazine.size > 0) {
    hak_magazine_drop(&info->batch_magazine);
    heap->batch[cls - 1].top = hak_magazine_none;
  }
  if (info->magazine.size > 0) {
    hak_magazine_drop(&info->magazine);
    hak_bin_lower(heap, cls, 0);
  }
}

void hak_cache_close(hak_heap_t *heap, const char *function) {
  hak_cache_flush(heap, function);
  hak_hook_hardened.close(heap, function);
  for (uint32_t c = hak_bin_next_touched(heap, 0); c < HAK_CLASS_COUNT; c = hak_bin_next_touched(heap, c)) {
    drop_magazines(heap, c);
  }
  hak_policy_close(heap);
}

void hak_cache_drop_currents(hak_heap_t *heap) {
  for (uint32_t c = hak_bin_next_touched(heap, 0); c < HAK_CLASS_COUNT; c = hak_bin_next_touched(heap, c)) {
    drop_current(&heap->info[c]);
  }
}

void hak_cache_request_flush(void) {
  atomic_fetch_add_explicit(&flush_epoch, 1, memory_order_relaxed);
}

/* Return all blocks of the class, its magazines and its capacity. */
static void return_class(hak_heap_t *heap, uint32_t cls) {
  flush_class(heap, cls, "free");
  drop_magazines(heap, cls);
  hak_policy_idle(heap, cls);
}

/* Return the `count` oldest blocks and lower the capacity by as many. Fetching them again restores it. */
static void return_oldest(hak_heap_t *heap, uint32_t cls, uint32_t count) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_free_block_t **slots = hak_bin_slots(heap, cls);
  uint32_t blocks = hak_bin_settle(heap, cls), capacity = hak_bin_capacity(info);
  hak_bin_lower(heap, cls, 0);
  hak_run_return(slots + 1, count, cls, "free");
  hak_copy_words(slots + 1, slots + 1 + count, blocks - count);
  hak_bin_raise(heap, cls, blocks - count);
  info->overflowed += count;
  hak_policy_set_capacity(heap, cls, capacity > count ? capacity - count : 0);
}

/* Return the lower half of the bin if it was not used since the last scavenge: then the block above it is in its old
 * place. A loop that empties and fills the bin may have put that block back; it fetches the half once more. */
static void return_unused(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t half = info->idle_count / 2, count = hak_bin_settle(heap, cls);
  if (!info->fixed && half > 0 && half < count && hak_bin_slots(heap, cls)[half + 1] == info->idle_middle) {
    return_oldest(heap, cls, half);
  }
}

/* Note the bin's state for the next scavenge. */
static void note_state(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  info->busy = false;
  info->idle_head = heap->bin[cls].head;
  info->idle_count = hak_bin_settle(heap, cls) + info->remote_count;
  info->idle_middle = info->idle_count > 0 ? hak_bin_slots(heap, cls)[info->idle_count / 2 + 1] : NULL;
}

/* Return every class that the thread did not touch since the last scavenge, and the unused half of the others. */
static void return_idle(hak_heap_t *heap) {
  for (uint32_t c = hak_bin_next_touched(heap, 0); c < HAK_CLASS_COUNT; c = hak_bin_next_touched(heap, c)) {
    hak_bin_info_t *info = &heap->info[c];
    uint32_t count = hak_bin_blocks(heap, c) + info->remote_count;
    if (!info->busy && info->idle_head == heap->bin[c].head && info->idle_count == count) {
      return_class(heap, c);
    } else if (info->remote_count == 0) {
      return_unused(heap, c);
    }
    note_state(heap, c);
  }
}

static bool is_due(const hak_heap_t *heap) {
  return hak_os_now_ms() - heap->scavenged_ms >= (uint64_t)hak_option(HAK_OPTION_DECAY) / HAK_SCAVENGES;
}

static void scavenge(hak_heap_t *heap) {
  heap->scavenged_ms = hak_os_now_ms();
  hak_background_tick(heap->scavenged_ms);
  return_idle(heap);
}

void hak_cache_scavenge_if_due(hak_heap_t *heap) {
  if (is_due(heap)) {
    scavenge(heap);
  }
}

/* Periodic work of a thread, at refills and overflows. */
void hak_cache_look_around(hak_heap_t *heap) {
  uint32_t epoch = atomic_load_explicit(&flush_epoch, memory_order_relaxed);
  if (HAK_UNLIKELY(epoch != heap->flush_seen)) {
    heap->flush_seen = epoch;
    hak_cache_flush(heap, "free");
  }
  hak_background_wake();
  hak_purge_step();
  bool due = is_due(heap);
  if (++heap->events % HAK_EVENTS_PER_CHECK == 0 || due) {
    heap->heap_shrinks = hak_retain_has_fallen();
    if (heap->heap_shrinks) {
      hak_depot_flush(true);
    }
    hak_sweep_step();
    if (due) {
      scavenge(heap);
    }
    heap->cached_bytes = hak_bins_bytes(heap);
  }
}

static void open_bin(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  if (info->buffers_remote) {
    hak_run_return(hak_bin_slots(heap, cls) + 1, cut_remote(info), cls, "free");
    info->buffers_remote = false;
    hak_bin_set_end(heap, cls);
  }
}

static uint32_t fetch(hak_bin_info_t *info, uint32_t cls, hak_free_block_t **blocks, uint32_t want) {
  uint32_t count = hak_depot_take(cls, blocks, want);
  while (count == 0) {
    if (!info->current && !(info->current = hak_slab_acquire(cls))) {
      count = hak_mixed_take_back(cls, blocks, want);
      break;
    }
    /* with several threads, whole cache lines: no two threads then write to one line */
    count = hak_slab_take(info->current, blocks, want, hak_policy_caches_open() > 1);
    if (count == 0 || !hak_policy_keeps_current(info, cls)) {
      drop_current(info);
    }
  }
  return count;
}

/* A run that was freed twice may be back in the arena. NULL: the block is damaged. */
static void *checked(hak_free_block_t *block, uint32_t cls) {
  if (HAK_UNLIKELY(!hak_is_marked_free(block) || hak_pagemap_class(block) != cls)) {
    hak_freed_damaged("malloc", block);
    return NULL;
  }
  return hak_mark_taken(block);
}

static void *refill_run(hak_heap_t *heap, uint32_t cls, bool *zeroed) {
  hak_policy_refill(&heap->info[cls], cls);
  hak_free_block_t *passed_on;
  void *block = NULL;
  while (!block && hak_depot_take(cls, &passed_on, 1) > 0) {
    block = checked(passed_on, cls);
  }
  block = block ? block : hak_run_take(cls, HAK_BLOCK_MIN, zeroed);
  if (block) {
    hak_policy_fetched(heap, cls, 1);
  }
  return block;
}

void hak_cache_stock(hak_heap_t *heap, uint32_t cls, uint32_t want) {
  uint32_t count = hak_bin_settle(heap, cls);
  if (hak_bin_reserve(heap, cls, count + want)) {
    hak_bin_raise(heap, cls, count + fetch(&heap->info[cls], cls, hak_bin_slots(heap, cls) + 1 + count, want));
  }
}

/* The class's first blocks share pages with those of other classes, unless a slab or the depot has free blocks of it.
 * NULL: it has, or it is not young. */
static void *refill_young(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  bool young = hak_policy_is_young(info, cls) && !hak_policy_is_off(info);
  bool other = !young || hak_sweep_is_listed(cls) || hak_depot_count(cls) > 0;
  hak_free_block_t *block = other ? NULL : hak_mixed_take(&heap->mixed, cls);
  if (!block) {
    return NULL;
  }
  open_bin(heap, cls);
  info->mixed_bytes += hak_class_sizes[cls];
  info->consecutive = 0;
  hak_policy_fetched(heap, cls, 1);
  return checked(block, cls);
}

void *hak_cache_refill(hak_heap_t *heap, uint32_t cls, size_t bytes, bool *zeroed) {
  hak_bin_info_t *info = &heap->info[cls];
  *zeroed = false;
  hak_bin_touch(heap, cls);
  atomic_store_explicit(&info->asked_bytes, info->asked_bytes + bytes, memory_order_relaxed);
  atomic_store_explicit(&info->asked_count, info->asked_count + 1, memory_order_relaxed);
  info->busy = true;
  void *first = refill_young(heap, cls);
  if (first) {
    return first;
  }
  hak_cache_look_around(heap);
  hak_background_ensure();
  if (hak_class_is_run(cls)) {
    return refill_run(heap, cls, zeroed);
  }
  if (hak_policy_is_off(info)) {
    return hak_freed_take_one(cls);
  }
  open_bin(heap, cls);
  hak_free_block_t *only, **blocks = &only;
  uint32_t want = hak_policy_refill(info, cls);
  if (want > 1 && hak_bin_reserve(heap, cls, want)) {
    blocks = hak_bin_slots(heap, cls) + 1;
  } else {
    want = 1;
  }
  uint32_t count;
  void *block = NULL;
  while (!block) {
    count = fetch(info, cls, blocks, want);
    if (count == 0) {
      return NULL;
    }
    block = checked(blocks[count - 1], cls);
  }
  if (count > 1) {
    hak_bin_raise(heap, cls, count - 1);
  }
  hak_policy_fetched(heap, cls, count);
  return block;
}

/* Put the block into the remote-free buffer. The first full buffer is passed on, and the bin works normally from then
 * on: the thread allocates none of the class, so it only frees. False: the bin works normally, or there is no memory.
 */
static bool put_remote(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block) {
  hak_bin_info_t *info = &heap->info[cls];
  if (info->remote_count == REMOTE_BATCH) {
    pass_on(heap, cls, hak_bin_slots(heap, cls) + 1, cut_remote(info));
    open_bin(heap, cls);
    return false;
  }
  if (!hak_bin_reserve(heap, cls, REMOTE_BATCH)) {
    return false;
  }
  hak_mark_free(block);
  uint32_t count = info->remote_count + 1;
  hak_bin_slots(heap, cls)[count] = block;
  atomic_store_explicit(&info->remote_count, count, memory_order_release);
  return true;
}

static bool make_room(hak_heap_t *heap, uint32_t cls) {
  uint32_t count = hak_bin_blocks(heap, cls);
  bool room = count < hak_bin_capacity(&heap->info[cls]) && hak_bin_reserve(heap, cls, count + 1);
  hak_bin_set_end(heap, cls);
  return room;
}

/* Make room by the policy, which may pass other blocks on. */
static bool make_room_by_policy(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_cache_look_around(heap);
  hak_overflow_t what = hak_policy_overflow(heap, cls);
  if (what == HAK_OVERFLOW_FREES) {
    drop_current(info);
    shorten(heap, cls, 0);
  } else if (what == HAK_OVERFLOW_HALF) {
    shorten(heap, cls, hak_bin_capacity(info) / 2);
  }
  return make_room(heap, cls);
}

void hak_cache_overflow(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_bin_touch(heap, cls);
  if (hak_bin_capacity(info) == 0 &&
      info->remote_count == 0) { /* only the first of several blocks pays for these checks */
    if (!hak_class_is_run(cls)) {
      hak_verify_slab_expect_out(block, "free");
    }
    hak_verify_edges(block, cls);
  }
  if (info->buffers_remote && put_remote(heap, cls, block)) {
    return;
  }
  if ((make_room(heap, cls) || make_room_by_policy(heap, cls)) && hak_bin_push(heap, &heap->bin[cls], block)) {
    return;
  }
  if (hak_class_is_run(cls) && passes_on(heap, cls)) {
    hak_mark_free(block);
    pass_on(heap, cls, &block, 1);
    return;
  }
  hak_cache_return_one(cls, block);
  if (info->current && hak_slab_is_whole(info->current)) {
    drop_current(info);
  }
}
