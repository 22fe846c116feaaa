/* How much a thread caches. A class's capacity begins with a little from the thread's quota, and grows by the blocks
 * that overflowed and were fetched again, within one bound a class and one budget for all threads. */
#include "cache.h"

#include "options.h"

enum {
  BUDGET_BYTES = 16 << 20,        /* of capacity for all threads; each has its share of that, */
  BUDGET_LEAST_BYTES = 128 << 10, /* but no less than this */
  QUOTA_PART = 8,                 /* of its share a thread has this part without a need shown */
  START_BYTES = 8 << 10,          /* a class's first capacity; at least a block, but no run */
  TRANSFER_BYTES = 16 << 10,      /* a refill, and what a thread that only frees gathers, at most; at least a block */
  STREAK_MAX = 3,                 /* overflows in a row before a thread counts as one that only frees */
  FAST_BYTES_PER_MS = 32 << 20,   /* of runs: no thread could write so much */
  CLOCK_MS = 10,                  /* what the clock may be behind: a tick of the kernel's */
  LIMIT_PART = 4,                 /* all caches together hold this part of a memory limit at most */
  LENT_BYTES = 512 << 10,         /* of capacity that the sampler lends to all threads */
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

static size_t share(void) {
  size_t bytes = BUDGET_BYTES / hak_caches_open();
  return bytes < BUDGET_LEAST_BYTES ? BUDGET_LEAST_BYTES : bytes;
}

/* As far as the budget goes: of several runs of a class most pages are not resident, see hak_policy_slows. */
static size_t counted_bytes(uint32_t cls, uint32_t capacity) {
  return (size_t)(hak_class_is_run(cls) && capacity > 1 ? 1 : capacity) * hak_class_sizes[cls];
}

void hak_policy_set_capacity(hak_heap_t *heap, uint32_t cls, uint32_t capacity) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t bytes = counted_bytes(cls, capacity);
  size_t change = bytes - counted_bytes(cls, hak_bin_capacity(info)); /* may be below 0 */
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
  info->closed = hak_class_sizes[cls] <= HAK_CACHE_LINE && /* a line may have blocks of other threads */
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
  heap->capacity_bytes = heap->quota_bytes = heap->run_bytes = 0;
  heap->takes_fast = false;
  hak_lock_waited_ns = 0;
}

bool hak_policy_is_off(const hak_bin_info_t *info) {
  return !info->adaptive && hak_bin_capacity(info) == 0;
}

uint32_t hak_policy_refill(hak_bin_info_t *info, uint32_t cls) {
  uint32_t first = blocks_within(HAK_REFILL_LEAST_BYTES, cls, 1), most = blocks_within(TRANSFER_BYTES, cls, 1);
  uint32_t capacity = hak_bin_capacity(info), want = info->fetched / 2;
  info->streak = 0;
  if (capacity == 0 && hak_class_sizes[cls] > HAK_REFILL_LEAST_BYTES) {
    return 1;
  }
  want = want < first ? first : want < most ? want : most;
  return want <= capacity || info->adaptive ? want : capacity + 1; /* one is handed out */
}

bool hak_policy_keeps_current(const hak_bin_info_t *info, uint32_t cls) {
  return (size_t)info->fetched * hak_class_sizes[cls] >= (size_t)2 * TRANSFER_BYTES;
}

/* Whether the class, the budget and a memory limit have room for so many blocks in all. Each class has room for one
 * that is not larger than its bound. */
static bool may_have(const hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  size_t bytes = counted_bytes(cls, blocks) - counted_bytes(cls, hak_bin_capacity(&heap->info[cls]));
  int64_t limit = hak_option(HAK_OPTION_MEMORY_LIMIT);
  int64_t all = atomic_load_explicit(&capacities_bytes, memory_order_relaxed) + (int64_t)bytes;
  if ((size_t)blocks * hak_class_sizes[cls] > hak_option_size(HAK_OPTION_CACHE_BYTES) || blocks > HAK_MAGAZINE_MAX ||
      (hak_class_is_run(cls) && blocks > 1 && (!heap->takes_fast || limit > 0))) {
    return false;
  }
  return heap->capacity_bytes + bytes <= share() && (limit == 0 || all <= limit / LIMIT_PART);
}

void hak_policy_fetched(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t again = blocks < info->returned ? blocks : info->returned, capacity = hak_bin_capacity(info);
  info->fetched += hak_policy_keeps_current(info, cls) ? 0 : blocks;
  info->returned -= again;
  heap->run_bytes += hak_class_is_run(cls) ? hak_class_sizes[cls] : 0;
  if (again > 0 && info->adaptive && may_have(heap, cls, capacity + again)) {
    hak_policy_set_capacity(heap, cls, capacity + again);
  }
}

/* More capacity without a need shown. False: the quota has no room for it. */
static bool grant(hak_heap_t *heap, uint32_t cls, uint32_t capacity) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t bytes = (size_t)(capacity - hak_bin_capacity(info)) * hak_class_sizes[cls];
  if (heap->quota_bytes + bytes > share() / QUOTA_PART || !may_have(heap, cls, capacity)) {
    return false;
  }
  heap->quota_bytes += bytes;
  info->quota_bytes += (uint32_t)bytes;
  hak_policy_set_capacity(heap, cls, capacity);
  return true;
}

/* A thread that only frees gathers batches for others. Beyond a batch it loses what it earned where nobody takes it: a
 * cached block holds a page, or a slab, of the free memory around it. */
void hak_policy_passed(hak_heap_t *heap, uint32_t cls, bool taken_up) {
  uint32_t capacity = hak_bin_capacity(&heap->info[cls]);
  uint32_t batch = blocks_within(TRANSFER_BYTES, cls, 1);
  if (!taken_up && capacity > batch) {
    hak_policy_set_capacity(heap, cls, capacity / 2 > batch ? capacity / 2 : batch);
  } else if (taken_up && capacity < batch) {
    grant(heap, cls, 2 * capacity < batch ? 2 * capacity : batch);
  }
}

hak_overflow_t hak_policy_overflow(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t capacity = hak_bin_capacity(info);
  info->busy = true;
  size_t most = hak_option_size(HAK_OPTION_CACHE_BYTES);
  if (capacity == 0 && info->adaptive && !hak_class_is_run(cls) &&
      grant(heap, cls, blocks_within(most < START_BYTES ? most : START_BYTES, cls, 1))) {
    return HAK_OVERFLOW_GROWN;
  }
  if (info->adaptive && ++info->streak > STREAK_MAX) {
    info->returned += capacity > 0 ? capacity : 1;
    return HAK_OVERFLOW_FREES;
  }
  if (capacity == 0) {
    info->returned += info->adaptive;
    return HAK_OVERFLOW_NONE;
  }
  info->returned += capacity - capacity / 2;
  return HAK_OVERFLOW_HALF;
}

bool hak_policy_slows(hak_heap_t *heap, uint64_t passed_ms, bool ends) {
  uint64_t waited_ms = hak_lock_waited_ns / 1000000; /* of many threads at the arena none takes much */
  bool fast = heap->run_bytes / FAST_BYTES_PER_MS + waited_ms >= passed_ms + CLOCK_MS;
  bool slows = ends && heap->takes_fast && !fast;
  heap->takes_fast = fast || (heap->takes_fast && !ends);
  if (ends) {
    heap->run_bytes = 0;
    hak_lock_waited_ns = 0;
  }
  return slows;
}

void hak_policy_idle(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  forget_lent(info, cls);
  if (info->adaptive) {
    info->fetched = 0;
    hak_policy_set_capacity(heap, cls, 0);
  }
}
