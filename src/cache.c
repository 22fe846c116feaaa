/* Refill, overflow and idle bins of a thread's cache. fast.h leads here when a bin is empty or full; depot, slabs and
 * runs stand below. policy.c decides how much. */
#include "cache.h"

#include "arena.h"
#include "background.h"
#include "depot.h"
#include "edges.h"
#include "large.h"
#include "os.h"
#include "pagemap.h"
#include "quarantine.h"
#include "slab.h"

enum {
  OUTGOING_BATCH = 64,
  EVENTS_PER_LOOK = 64,
  EVENTS_PER_CLOCK = 4, /* whether it is time for a look */
  LOOK_MS = 250,
  BUSY_LOOK_MS = 16, /* of a thread with so many events since the last look */
  BUSY_EVENTS = 512,
  SHRINKS_SLICES = 16, /* fewer in use than at the last look: the heap shrinks */
};

static _Atomic uint32_t flush_epoch;

void hak_cache_open(hak_heap_t *heap) {
  hak_policy_close(heap);
  heap->bin[0].head = HAK_NO_BLOCK; /* nobody's: where malloc is to take the slow path, it looks there */
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    HAK_ASSERT(!heap->info[c].current);
    heap->info[c].magazine = heap->info[c].granted = HAK_MAGAZINE_NONE;
    heap->bin[c].inverse = hak_class_inverses[c];
    heap->bin[c].limit = hak_class_limits[c];
    if (c <= HAK_GRANT_LAST) {
      heap->grant[c - 1] = (hak_grant_t){HAK_NO_BLOCK, hak_magazine_none};
    }
    hak_bin_lower(heap, c, 0);
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

static void return_some(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count, const char *function) {
  if (hak_class_is_run(cls)) {
    hak_run_return(blocks, count, cls, function);
  } else {
    hak_slab_return(blocks, count, cls, function);
  }
}

/* To another thread that allocates, if there may be one; else back. */
static void pass_on(const hak_heap_t *heap, uint32_t cls, hak_free_block_t *const *blocks, uint32_t count) {
  if (hak_caches_open() > 1 && hak_policy_passes_on(heap, cls)) {
    count = hak_depot_put(cls, blocks, count);
  }
  return_some(cls, blocks, count, "free");
}

/* The newest blocks leave the bin, all but `keep`. */
static void shorten(hak_heap_t *heap, uint32_t cls, uint32_t keep) {
  uint32_t count = hak_bin_settle(heap, cls);
  if (count > keep) {
    hak_bin_lower(heap, cls, keep);
    pass_on(heap, cls, hak_bin_slots(heap, cls) + 1 + keep, count - keep);
  }
}

static uint32_t cut_outgoing(hak_bin_info_t *info) {
  return atomic_exchange_explicit(&info->outgoing, 0, memory_order_relaxed);
}

/* What was not handed out was not counted either. */
void hak_cache_cut_grant(hak_heap_t *heap, uint32_t cls, const char *function) {
  if (cls > HAK_GRANT_LAST) {
    return;
  }
  hak_grant_t *grant = &heap->grant[cls - 1];
  uint32_t count = grant->head != HAK_NO_BLOCK ? hak_grant_left(heap, cls) : 0;
  hak_free_block_t **slots = hak_magazine_slots(&heap->info[cls].granted);
  if (count > 0) {
    slots[count] = grant->head;
    atomic_store_explicit(&grant->top, slots - 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_release);
    grant->head = HAK_NO_BLOCK;
    heap->info[cls].sample_left += count;
    return_some(cls, slots + 1, count, function);
  }
}

static void flush_class(hak_heap_t *heap, uint32_t cls, const char *function) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t count = hak_bin_settle(heap, cls);
  if (count > 0) {
    hak_bin_lower(heap, cls, 0);
    return_some(cls, hak_bin_slots(heap, cls) + 1, count, function);
  }
  if (info->outgoing > 0) {
    return_some(cls, hak_bin_slots(heap, cls) + 1, cut_outgoing(info), function);
  }
  hak_cache_cut_grant(heap, cls, function);
  drop_current(info);
}

void hak_cache_flush(hak_heap_t *heap, const char *function) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    flush_class(heap, c, function);
  }
  hak_quarantine_flush(heap, function);
}

static void drop_magazines(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  if (cls <= HAK_GRANT_LAST && info->granted.size > 0) {
    hak_magazine_drop(&info->granted);
    heap->grant[cls - 1].top = hak_magazine_none;
  }
  if (info->magazine.size > 0) {
    hak_magazine_drop(&info->magazine);
    hak_bin_lower(heap, cls, 0);
  }
}

void hak_cache_close(hak_heap_t *heap, const char *function) {
  hak_cache_flush(heap, function);
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    drop_magazines(heap, c);
  }
  hak_policy_close(heap);
}

void hak_cache_drop_currents(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    drop_current(&heap->info[c]);
  }
}

size_t hak_cache_bytes(const hak_heap_t *heap) {
  size_t bytes = 0;
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    bytes += (size_t)hak_bin_blocks(heap, c) * hak_class_sizes[c];
  }
  return bytes;
}

void hak_cache_request_flush(void) {
  atomic_fetch_add_explicit(&flush_epoch, 1, memory_order_relaxed);
}

/* All that the class holds, and its room. */
static void return_class(hak_heap_t *heap, uint32_t cls) {
  flush_class(heap, cls, "free");
  drop_magazines(heap, cls);
  hak_policy_idle(heap, cls);
}

/* So many of the oldest blocks go, and their room; who fetches them again earns it back. */
static void return_oldest(hak_heap_t *heap, uint32_t cls, uint32_t count) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_free_block_t **slots = hak_bin_slots(heap, cls);
  uint32_t blocks = hak_bin_settle(heap, cls), capacity = hak_bin_capacity(info);
  hak_bin_lower(heap, cls, 0);
  return_some(cls, slots + 1, count, "free");
  hak_copy_words(slots + 1, slots + 1 + count, blocks - count);
  hak_bin_raise(heap, cls, blocks - count);
  info->returned += count;
  hak_policy_set_capacity(heap, cls, capacity > count ? capacity - count : 0);
}

/* Half of the bin was not used since the last look, if the block above it is where it was. (Or is there again: who
 * fills and empties a bin in a loop fetches half of it anew, once in so long.) */
static void return_unused(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t half = info->seen_count / 2, count = hak_bin_settle(heap, cls);
  if (info->adaptive && half > 0 && half < count && hak_bin_slots(heap, cls)[half + 1] == info->seen_middle) {
    return_oldest(heap, cls, half);
  }
}

static void see(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  info->busy = false;
  info->seen_head = heap->bin[cls].head;
  info->seen_count = hak_bin_settle(heap, cls) + info->outgoing;
  info->seen_middle = info->seen_count > 0 ? hak_bin_slots(heap, cls)[info->seen_count / 2 + 1] : NULL;
}

/* A class that the thread did not touch since the last look holds slabs for nothing, and room that others may need. */
static void return_idle(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_bin_info_t *info = &heap->info[c];
    uint32_t count = hak_bin_blocks(heap, c) + info->outgoing;
    if (!info->busy && info->seen_head == heap->bin[c].head && info->seen_count == count) {
      return_class(heap, c);
    } else if (info->outgoing == 0) {
      return_unused(heap, c);
    }
    see(heap, c);
  }
}

void hak_cache_look_at_clock(hak_heap_t *heap) {
  uint64_t now_ms = hak_os_now_ms();
  for (uint32_t c = hak_policy_calms(heap, now_ms) ? HAK_RUN_FIRST : HAK_CLASS_COUNT; c < HAK_CLASS_COUNT; c++) {
    return_class(heap, c);
  }
  bool busy = heap->events - heap->looked_at >= BUSY_EVENTS;
  if (now_ms - heap->looked_ms >= (busy ? BUSY_LOOK_MS : LOOK_MS)) {
    heap->looked_ms = now_ms;
    heap->looked_at = heap->events;
    hak_background_tick(now_ms);
    return_idle(heap);
  }
}

void hak_cache_look_around(hak_heap_t *heap) {
  uint32_t epoch = atomic_load_explicit(&flush_epoch, memory_order_relaxed);
  if (HAK_UNLIKELY(epoch != heap->flush_seen)) {
    heap->flush_seen = epoch;
    hak_cache_flush(heap, "free");
  }
  hak_background_ensure();
  bool seldom = ++heap->events % EVENTS_PER_CLOCK == 0 && hak_os_now_ms() - heap->looked_ms >= LOOK_MS;
  hak_arena_purge_step();
  if (seldom || heap->events % EVENTS_PER_LOOK == 0) {
    size_t used = hak_arena_used_slices();
    bool fallen = hak_arena_has_fallen();
    heap->heap_shrinks = fallen || used + SHRINKS_SLICES <= heap->used_seen;
    if (fallen) {
      hak_depot_flush(true);
    }
    heap->used_seen = used;
    hak_slab_sweep_step();
    hak_cache_look_at_clock(heap);
  }
}

static void open_bin(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  if (info->closed) {
    return_some(cls, hak_bin_slots(heap, cls) + 1, cut_outgoing(info), "free");
    info->closed = false;
    hak_bin_set_end(heap, cls);
  }
}

static uint32_t fetch(hak_bin_info_t *info, uint32_t cls, hak_free_block_t **blocks, uint32_t want) {
  uint32_t count = hak_depot_take(cls, blocks, want);
  while (count == 0) {
    if (!info->current && !(info->current = hak_slab_acquire(cls))) {
      break;
    }
    /* Where there are several threads, none writes into another's lines. */
    count = hak_slab_take(info->current, blocks, want, hak_caches_open() > 1);
    if (count == 0 || !hak_policy_keeps_current(info, cls)) {
      drop_current(info);
    }
  }
  return count;
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
  uint32_t count = hak_bin_settle(heap, cls);
  if (hak_bin_reserve(heap, cls, count + want)) {
    hak_bin_raise(heap, cls, count + fetch(&heap->info[cls], cls, hak_bin_slots(heap, cls) + 1 + count, want));
  }
}

void *hak_cache_refill(hak_heap_t *heap, uint32_t cls, size_t bytes, bool *zeroed) {
  hak_bin_info_t *info = &heap->info[cls];
  *zeroed = false;
  hak_cache_look_around(heap);
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
  hak_free_block_t *only, **blocks = &only;
  uint32_t want = hak_policy_refill(info, cls);
  if (want > 1 && hak_bin_reserve(heap, cls, want)) {
    blocks = hak_bin_slots(heap, cls) + 1;
  } else {
    want = 1;
  }
  uint32_t count = fetch(info, cls, blocks, want);
  if (count == 0) {
    return NULL;
  }
  hak_free_block_t *block = blocks[count - 1];
  if (!hak_is_marked_free(block)) {
    hak_slab_damaged("malloc", block);
  }
  if (count > 1) {
    hak_bin_raise(heap, cls, count - 1);
  }
  hak_policy_fetched(heap, cls, count);
  return hak_mark_taken(block);
}

void hak_cache_return_one(uint32_t cls, hak_free_block_t *block) {
  if (hak_class_is_run(cls)) {
    hak_run_give(block, cls, "free");
  } else {
    hak_slab_return_one(block, cls, "free");
  }
}

/* Blocks of a closed bin wait there. After the first batch the bin is open: who frees so many and allocates none only
 * frees. False: it is open, or for want of memory they cannot wait. */
static bool put_outgoing(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block) {
  hak_bin_info_t *info = &heap->info[cls];
  if (info->outgoing == OUTGOING_BATCH) {
    pass_on(heap, cls, hak_bin_slots(heap, cls) + 1, cut_outgoing(info));
    open_bin(heap, cls);
    return false;
  }
  if (!hak_bin_reserve(heap, cls, OUTGOING_BATCH)) {
    return false;
  }
  hak_mark_free(block);
  uint32_t count = info->outgoing + 1;
  hak_bin_slots(heap, cls)[count] = block;
  atomic_store_explicit(&info->outgoing, count, memory_order_release);
  return true;
}

/* Room for one more block, as far as the capacity goes. */
static bool make_room(hak_heap_t *heap, uint32_t cls) {
  uint32_t count = hak_bin_blocks(heap, cls);
  bool room = count < hak_bin_capacity(&heap->info[cls]) && hak_bin_reserve(heap, cls, count + 1);
  hak_bin_set_end(heap, cls);
  return room;
}

/* On the way to it other blocks may leave the thread. */
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
  if (hak_bin_capacity(info) == 0 && info->outgoing == 0) { /* the first of several, which share the cost */
    if (!hak_class_is_run(cls)) {
      hak_slab_expect_out(block, "free");
    }
    if (hak_caches_open() == 1) {
      hak_edges_check(block, cls, "free");
    }
  }
  if (info->closed && put_outgoing(heap, cls, block)) {
    return;
  }
  if ((make_room(heap, cls) || make_room_by_policy(heap, cls)) && hak_bin_push(heap, &heap->bin[cls], block)) {
    return;
  }
  hak_cache_return_one(cls, block);
  if (info->current && hak_slab_is_whole(info->current)) {
    drop_current(info);
  }
}
