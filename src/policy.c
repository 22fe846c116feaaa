/* How much a thread caches. A class's capacity begins with a little from the thread's quota, and grows by the blocks
 * that overflowed and were fetched again, within one bound a class and one budget for all threads. */
#include "cache.h"

#include "depot.h"
#include "options.h"

enum {
  BUDGET_BYTES = 16 << 20, /* of capacity for all threads; each has its share of that, but no less than */
  BUDGET_LEAST_BYTES = 128 << 10,
  QUOTA_BYTES = 2 << 20, /* of that, for capacity without a need shown; and no less a thread than */
  QUOTA_LEAST_BYTES = 32 << 10,
  START_BYTES = 8 << 10,  /* a class's first capacity; at least a block */
  BATCH_BYTES = 32 << 10, /* a thread that only frees gathers so much for others at a time, */
  DRAIN_BYTES = 1 << 10,  /* or so much for the slabs, where nobody takes it */
  FIRST_REFILL_BYTES = 1 << 10,
  REFILL_BYTES = 16 << 10,              /* at most; in between half of what was fetched so far */
  FETCHED_MAX = 1 << 16,                /* where that count ends */
  STREAK_MAX = 3,                       /* overflows in a row before a thread counts as one that only frees */
  OWN_LINES_MAX_BYTES = HAK_CACHE_LINE, /* a smaller block may share its line with one of another thread */
  RUN_PART = 4,                         /* runs of a class: this part of the most bytes of a class */
  LIMIT_PART = 4,                       /* all caches together hold this part of a memory limit at most */
  LENT_BYTES = 512 << 10,               /* of capacity that the sampler lends to all threads */
};

static _Atomic size_t caches_open;
/* Of all threads. In the child of a fork a thread that stopped amid a change may leave them a little below 0. */
static _Atomic int64_t lent_bytes, capacities_bytes;

void hak_cache_set_open(size_t caches) {
  atomic_store_explicit(&caches_open, caches, memory_order_relaxed);
}

size_t hak_caches_open(void) {
  size_t open = atomic_load_explicit(&caches_open, memory_order_relaxed);
  return open ? open : 1;
}

static uint32_t blocks_within(size_t bytes, uint32_t cls, uint32_t low) {
  uint32_t blocks = (uint32_t)(bytes / hak_class_sizes[cls]);
  return blocks < low ? low : blocks;
}

static size_t share_of(size_t shared, size_t least) {
  size_t share = shared / hak_caches_open();
  return share < least ? least : share;
}

bool hak_policy_passes_on(const hak_heap_t *heap, uint32_t cls) {
  return !hak_class_is_run(cls) && (!heap->heap_shrinks || hak_depot_is_taken(cls));
}

void hak_policy_set_capacity(hak_heap_t *heap, uint32_t cls, uint32_t capacity) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t bytes = (size_t)capacity * hak_class_sizes[cls];
  size_t change = bytes - (size_t)hak_bin_capacity(info) * hak_class_sizes[cls]; /* may be below 0 */
  atomic_store_explicit(&info->capacity, capacity, memory_order_relaxed);
  hak_bin_set_end(heap, cls);
  if (info->adaptive && change != 0) {
    heap->capacity_bytes += change;
    atomic_fetch_add_explicit(&capacities_bytes, (int64_t)change, memory_order_relaxed);
  }
  if (info->quota_bytes > bytes) {
    heap->quota_bytes -= info->quota_bytes - (uint32_t)bytes;
    info->quota_bytes = (uint32_t)bytes;
  }
}

static int64_t fixed_capacity(uint32_t cls) {
  uint32_t band = hak_class_bands[cls];
  if (!hak_option(HAK_OPTION_UNIFIED_CACHE)) {
    return 0;
  }
  return band < HAK_BAND_COUNT ? hak_option(HAK_OPTION_CACHE_C0 + band) : HAK_OPTION_AUTO;
}

void hak_policy_open(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  int64_t fixed = fixed_capacity(cls);
  atomic_store_explicit(&info->capacity, 0, memory_order_relaxed);
  info->adaptive = fixed == HAK_OPTION_AUTO;
  info->closed = hak_class_sizes[cls] <= OWN_LINES_MAX_BYTES &&
                 (info->adaptive ? hak_option_size(HAK_OPTION_CACHE_BYTES) > 0 : fixed > 0);
  info->fetched = info->quota_bytes = info->returned = info->streak = 0;
  info->seen_head = NULL;
  hak_policy_set_capacity(heap, cls, info->adaptive ? 0 : (uint32_t)fixed);
}

/* The capacity is set anew, so that what was lent is part of it no more. */
static void forget_lent(hak_bin_info_t *info, uint32_t cls) {
  atomic_fetch_sub_explicit(&lent_bytes, (int64_t)info->lent * hak_class_sizes[cls], memory_order_relaxed);
  info->lent = 0;
}

bool hak_policy_lend(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_info_t *info = &heap->info[cls];
  int64_t bytes = (int64_t)blocks * hak_class_sizes[cls];
  if (!info->adaptive || info->closed || atomic_load_explicit(&lent_bytes, memory_order_relaxed) + bytes > LENT_BYTES) {
    return false;
  }
  atomic_fetch_add_explicit(&lent_bytes, bytes, memory_order_relaxed);
  info->lent += blocks;
  hak_policy_set_capacity(heap, cls, hak_bin_capacity(info) + blocks);
  return true;
}

void hak_policy_take_back(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t capacity = hak_bin_capacity(info);
  if (info->lent > 0) {
    hak_policy_set_capacity(heap, cls, capacity > info->lent ? capacity - info->lent : 0);
  }
  forget_lent(info, cls);
}

void hak_policy_close(hak_heap_t *heap) {
  for (uint32_t c = 1; c <= HAK_GRANT_LAST; c++) {
    forget_lent(&heap->info[c], c);
  }
  atomic_fetch_sub_explicit(&capacities_bytes, (int64_t)heap->capacity_bytes, memory_order_relaxed);
  heap->capacity_bytes = heap->quota_bytes = 0;
}

bool hak_policy_is_off(const hak_bin_info_t *info) {
  return !info->adaptive && hak_bin_capacity(info) == 0;
}

uint32_t hak_policy_refill(hak_bin_info_t *info, uint32_t cls) {
  uint32_t first = blocks_within(FIRST_REFILL_BYTES, cls, 1), most = blocks_within(REFILL_BYTES, cls, 1);
  uint32_t capacity = hak_bin_capacity(info), want = info->fetched / 2;
  info->streak = 0;
  if (capacity == 0 && hak_class_sizes[cls] > FIRST_REFILL_BYTES) {
    return 1;
  }
  want = want < first ? first : want < most ? want : most;
  return want <= capacity || info->adaptive ? want : capacity + 1; /* one is handed out */
}

bool hak_policy_keeps_current(const hak_bin_info_t *info, uint32_t cls) {
  return (size_t)info->fetched * hak_class_sizes[cls] >= (size_t)2 * REFILL_BYTES;
}

/* Of runs a quarter: slices that lie in caches are no use to blocks of other sizes. At least one that is not larger. */
static uint32_t most_blocks(uint32_t cls) {
  size_t most = hak_option_size(HAK_OPTION_CACHE_BYTES), size = hak_class_sizes[cls];
  uint32_t blocks = blocks_within(hak_class_is_run(cls) ? most / RUN_PART : most, cls, size <= most);
  return blocks < HAK_MAGAZINE_MAX ? blocks : HAK_MAGAZINE_MAX;
}

/* Whether the class, the budget and a memory limit have room for so many blocks in all. */
static bool may_have(const hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  size_t bytes = (size_t)(blocks - hak_bin_capacity(&heap->info[cls])) * hak_class_sizes[cls];
  int64_t limit = hak_option(HAK_OPTION_MEMORY_LIMIT);
  int64_t all = atomic_load_explicit(&capacities_bytes, memory_order_relaxed) + (int64_t)bytes;
  size_t share = share_of(BUDGET_BYTES, BUDGET_LEAST_BYTES);
  return blocks <= most_blocks(cls) && heap->capacity_bytes + bytes <= share &&
         (limit == 0 || all <= limit / LIMIT_PART);
}

void hak_policy_fetched(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t again = blocks < info->returned ? blocks : info->returned, capacity = hak_bin_capacity(info);
  info->fetched += info->fetched < FETCHED_MAX ? blocks : 0;
  info->returned -= again;
  if (again > 0 && info->adaptive && may_have(heap, cls, capacity + again)) {
    hak_policy_set_capacity(heap, cls, capacity + again);
  }
}

/* More capacity without a need shown. False: the quota has no room for it. */
static bool grant(hak_heap_t *heap, uint32_t cls, uint32_t capacity) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t bytes = (size_t)(capacity - hak_bin_capacity(info)) * hak_class_sizes[cls];
  if (heap->quota_bytes + bytes > share_of(QUOTA_BYTES, QUOTA_LEAST_BYTES) || !may_have(heap, cls, capacity)) {
    return false;
  }
  heap->quota_bytes += bytes;
  info->quota_bytes += (uint32_t)bytes;
  hak_policy_set_capacity(heap, cls, capacity);
  return true;
}

/* A thread that only frees gathers batches for others, and little where nobody takes them and the heap shrinks. */
static void towards_batch(hak_heap_t *heap, uint32_t cls, uint32_t capacity) {
  uint32_t batch = blocks_within(BATCH_BYTES, cls, 1), drain = blocks_within(DRAIN_BYTES, cls, 1);
  if (heap->heap_shrinks && !hak_policy_passes_on(heap, cls)) {
    hak_policy_set_capacity(heap, cls, capacity / 2 > drain ? capacity / 2 : capacity < drain ? capacity : drain);
  } else if (capacity < batch) {
    grant(heap, cls, 2 * capacity < batch ? 2 * capacity : batch);
  }
}

hak_overflow_t hak_policy_overflow(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t capacity = hak_bin_capacity(info);
  info->busy = true;
  size_t most = hak_option_size(HAK_OPTION_CACHE_BYTES);
  if (capacity == 0 && info->adaptive &&
      grant(heap, cls, blocks_within(most < START_BYTES ? most : START_BYTES, cls, 1))) {
    return HAK_OVERFLOW_GROWN;
  }
  if (info->adaptive && ++info->streak > STREAK_MAX) {
    info->returned += capacity > 0 ? capacity : 1;
    towards_batch(heap, cls, capacity);
    return HAK_OVERFLOW_FREES;
  }
  if (capacity == 0) {
    info->returned += info->adaptive;
    return HAK_OVERFLOW_NONE;
  }
  info->returned += capacity - capacity / 2;
  return HAK_OVERFLOW_HALF;
}

void hak_policy_idle(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  forget_lent(info, cls);
  if (info->adaptive) {
    info->fetched = 0;
    hak_policy_set_capacity(heap, cls, 0);
  }
}
