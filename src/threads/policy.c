/* How much a thread caches. The capacity of a class begins small and grows by the blocks that overflowed and were
 * fetched again. cache.c calls it. */
#include "policy.h"

#include "depot.h"

/* A thread that only frees passes on a batch of this many bytes while other threads take the blocks (shared); a refill
 * fetches half of it. */
enum { BATCH_BYTES = HAK_DEPOT_BYTES / HAK_LEAST_PART };

static _Atomic size_t caches_open, quotas_bytes, budgets_bytes; /* of all threads */

void hak_policy_set_open(size_t caches) {
  atomic_store_explicit(&caches_open, caches, memory_order_relaxed);
}

size_t hak_policy_caches_open(void) {
  size_t open = atomic_load_explicit(&caches_open, memory_order_relaxed);
  return open ? open : 1;
}

static uint32_t blocks_within(size_t bytes, uint32_t cls, uint32_t low, uint32_t high) {
  uint32_t blocks = (uint32_t)(bytes / hak_class_sizes[cls]);
  return blocks < low ? low : blocks > high ? high : blocks;
}

size_t hak_policy_share(size_t bytes) {
  size_t share = bytes * HAK_FEW_THREADS / hak_policy_caches_open(), least = bytes / HAK_LEAST_PART;
  return share < least ? least : share < bytes ? share : bytes;
}

static bool is_large(uint32_t cls) {
  return hak_class_sizes[cls] > HAK_SLOW_START_BYTES;
}

static size_t *budget_of(hak_heap_t *heap, uint32_t cls) {
  return is_large(cls) ? &heap->large_budget_bytes : &heap->budget_bytes;
}

void hak_policy_set_capacity(hak_heap_t *heap, uint32_t cls, uint32_t capacity) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_bin_touch(heap, cls);
  size_t change = ((size_t)capacity - hak_bin_capacity(info)) * hak_class_sizes[cls]; /* may be below 0 */
  atomic_store_explicit(&info->capacity, capacity, memory_order_relaxed);
  hak_bin_set_end(heap, cls);
  if (!info->fixed && change != 0) {
    *budget_of(heap, cls) += change;
    atomic_fetch_add_explicit(&budgets_bytes, change, memory_order_relaxed);
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
  int64_t capacity = fixed_capacity(cls);
  bool fixed = capacity != HAK_OPTION_AUTO;
  bool buffers_remote =
      hak_class_sizes[cls] <= HAK_CACHE_LINE && (fixed ? capacity > 0 : hak_option_size(HAK_OPTION_CACHE_BYTES) > 0);
  if (fixed || buffers_remote) {
    info->fixed = fixed;
    info->buffers_remote = buffers_remote;
    hak_policy_set_capacity(heap, cls, fixed ? (uint32_t)capacity : 0);
  }
}

/* Release the class's sampler quota. The caller then sets the capacity anew. */
static void forget_quota(hak_bin_info_t *info, uint32_t cls) {
  atomic_fetch_sub_explicit(&quotas_bytes, (size_t)info->sampler_quota * hak_class_sizes[cls], memory_order_relaxed);
  info->sampler_quota = 0;
}

bool hak_policy_add_quota(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t bytes = (size_t)blocks * hak_class_sizes[cls];
  if (info->fixed || info->buffers_remote ||
      atomic_load_explicit(&quotas_bytes, memory_order_relaxed) + bytes > HAK_BUDGET_BYTES) {
    return false;
  }
  atomic_fetch_add_explicit(&quotas_bytes, bytes, memory_order_relaxed);
  info->sampler_quota += blocks;
  hak_policy_set_capacity(heap, cls, hak_bin_capacity(info) + blocks);
  return true;
}

void hak_policy_drop_quota(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t capacity = hak_bin_capacity(info);
  if (info->sampler_quota > 0) {
    hak_policy_set_capacity(heap, cls, capacity > info->sampler_quota ? capacity - info->sampler_quota : 0);
  }
  forget_quota(info, cls);
}

void hak_policy_close(hak_heap_t *heap) {
  for (uint32_t c = hak_bin_next_touched(heap, 0); c < HAK_CLASS_COUNT; c = hak_bin_next_touched(heap, c)) {
    forget_quota(&heap->info[c], c);
  }
  atomic_fetch_sub_explicit(&budgets_bytes, heap->budget_bytes + heap->large_budget_bytes, memory_order_relaxed);
  heap->budget_bytes = heap->large_budget_bytes = heap->slow_start_bytes = 0;
}

bool hak_policy_is_off(const hak_bin_info_t *info) {
  return info->fixed && hak_bin_capacity(info) == 0;
}

bool hak_policy_passes_on(const hak_heap_t *heap, uint32_t cls) {
  bool cached = !hak_policy_is_off(&heap->info[cls]) && hak_class_sizes[cls] <= hak_option_size(HAK_OPTION_CACHE_BYTES);
  return cached && (!heap->heap_shrinks || hak_depot_is_taken(cls));
}

/* Blocks of one thread that another frees keep whole mixed pages in use. */
static size_t mixed_share(void) {
  return hak_policy_caches_open() > 1 ? HAK_MIXED_BYTES / HAK_MIXED_PART : HAK_MIXED_BYTES;
}

bool hak_policy_is_young(const hak_bin_info_t *info, uint32_t cls) {
  return !hak_hard.on && hak_class_sizes[cls] <= HAK_MIXED_BLOCK_MAX &&
         info->mixed_bytes + hak_class_sizes[cls] <= mixed_share();
}

bool hak_policy_retires(hak_heap_t *heap, uint32_t cls) {
  uint8_t *frees = &heap->mixed_frees[cls];
  if (*frees < HAK_MIXED_FREES) {
    ++*frees;
    return false;
  }
  hak_bin_touch(heap, cls);
  heap->info[cls].mixed_bytes = HAK_MIXED_BYTES;
  return true;
}

uint32_t hak_policy_refill(hak_bin_info_t *info, uint32_t cls) {
  uint32_t first = blocks_within(hak_policy_share(HAK_LEAST_BYTES), cls, 1, UINT32_MAX),
           capacity = hak_bin_capacity(info);
  uint32_t most = blocks_within(BATCH_BYTES / 2, cls, 1, UINT32_MAX), want = info->fetched / 2;
  info->consecutive = 0;
  info->refills = (uint8_t)(info->refills + (info->refills < HAK_PROVEN_AFTER));
  if (capacity == 0 && is_large(cls)) {
    return 1;
  }
  want = want < first ? first : want < most ? want : most;
  return want <= capacity || !info->fixed ? want : capacity + 1; /* one is handed out */
}

bool hak_policy_keeps_current(const hak_bin_info_t *info, uint32_t cls) {
  return info->refills >= HAK_PROVEN_AFTER && (size_t)info->fetched * hak_class_sizes[cls] >= BATCH_BYTES;
}

static size_t all_budgets_bytes(void) {
  return atomic_load_explicit(&budgets_bytes, memory_order_relaxed);
}

/* Whether the caches hold their part of the memory limit. */
static bool at_limit(void) {
  size_t limit = hak_limit_bytes();
  return limit > 0 && all_budgets_bytes() > limit / HAK_LEAST_PART;
}

/* Estimate the memory that a thread has in use: its share of all memory in use outside the caches. If cached memory
 * counted, each cache would justify the next one. The thread counts its own bins every few events; `others` is a bound
 * for the bins of other threads, which may sleep. */
static size_t in_use(hak_heap_t *heap, size_t others) {
  size_t used = hak_retain_used_slices() << HAK_SLICE_SHIFT, cached = heap->cached_bytes + others;
  return used > cached ? (used - cached) / hak_policy_caches_open() : 0;
}

/* Whether the budgets have room for `blocks` more blocks. The first block of a class always has room, since without it
 * the class is not cached at all. A run is an exception, since thousands of threads may sleep with one each. */
static bool may_grow(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  bool first = !hak_class_is_run(cls) && hak_bin_capacity(&heap->info[cls]) + blocks == 1;
  size_t bytes = (size_t)blocks * hak_class_sizes[cls], kept = *budget_of(heap, cls) + bytes;
  size_t least = is_large(cls) ? hak_option_size(HAK_OPTION_RETAIN) / hak_policy_caches_open()
                               : hak_policy_share(HAK_BUDGET_BYTES);
  size_t others = all_budgets_bytes() - heap->budget_bytes - heap->large_budget_bytes;
  if (first || kept <= least) {
    return true;
  }
  size_t used = in_use(heap, others);
  return !at_limit() && kept <= (hak_class_is_run(cls) ? used / HAK_RUNS_PART : used * HAK_CACHED_TIMES);
}

/* If the thread fetches blocks that overflowed before, a larger capacity would have saved both ways. So the capacity
 * grows by their number, within the budgets. */
void hak_policy_fetched(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t again = blocks < info->overflowed ? blocks : info->overflowed;
  info->fetched += info->fetched < HAK_MAGAZINE_MAX ? blocks : 0;
  if (again == 0 || info->fixed) {
    return;
  }
  info->overflowed -= again;
  size_t wanted = (size_t)hak_bin_capacity(info) + again;
  if (wanted <= blocks_within(hak_option_size(HAK_OPTION_CACHE_BYTES), cls, 0, HAK_MAGAZINE_MAX) &&
      may_grow(heap, cls, again)) {
    hak_policy_set_capacity(heap, cls, (uint32_t)wanted);
  }
}

/* The next batch size of a thread that only frees. It moves towards its goal by a factor of two. */
static uint32_t towards_batch(hak_heap_t *heap, uint32_t cls, uint32_t capacity) {
  uint32_t batch = hak_policy_passes_on(heap, cls) ? blocks_within(hak_policy_share(BATCH_BYTES), cls, 2, UINT32_MAX)
                                                   : blocks_within(HAK_LEAST_BYTES, cls, 1, UINT32_MAX);
  if (capacity >= batch) {
    return capacity / 2 > batch ? capacity / 2 : batch;
  }
  uint32_t more = capacity > 0 ? capacity : blocks_within(HAK_SLOW_START_BYTES, cls, 1, UINT32_MAX);
  more = batch - capacity < more ? batch - capacity : more;
  bool allowed = (size_t)(capacity + more) * hak_class_sizes[cls] <= hak_option_size(HAK_OPTION_CACHE_BYTES);
  size_t kept = heap->budget_bytes + heap->large_budget_bytes;
  allowed &= kept + (size_t)more * hak_class_sizes[cls] <= hak_policy_share(HAK_BUDGET_BYTES);
  return allowed && !hak_class_is_run(cls) && may_grow(heap, cls, more) ? capacity + more : capacity;
}

/* Grow the capacity although the class has shown no need, if all of it came by slow start. */
static bool slow_start(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t size = hak_class_sizes[cls], capacity = hak_bin_capacity(info), has = capacity * size;
  size_t wanted = capacity == 0 ? blocks_within(HAK_SLOW_START_BYTES, cls, 1, UINT32_MAX) * size : 2 * has;
  if (has != info->slow_start_bytes || size > BATCH_BYTES || has > HAK_SLOW_START_BYTES ||
      wanted > hak_option_size(HAK_OPTION_CACHE_BYTES) ||
      heap->slow_start_bytes + wanted - has > hak_policy_share(HAK_BUDGET_BYTES) / HAK_LEAST_PART) {
    return false;
  }
  heap->slow_start_bytes += wanted - has;
  info->slow_start_bytes += (uint32_t)(wanted - has);
  hak_policy_set_capacity(heap, cls, (uint32_t)(wanted / size));
  return true;
}

hak_overflow_t hak_policy_overflow(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t capacity = hak_bin_capacity(info);
  info->busy = true;
  if (!info->fixed && slow_start(heap, cls)) {
    return HAK_OVERFLOW_GROWN;
  }
  if (!info->fixed && ++info->consecutive > HAK_PROVEN_AFTER) {
    hak_policy_set_capacity(heap, cls, towards_batch(heap, cls, capacity));
    info->overflowed += capacity > 0 ? capacity : 1;
    return HAK_OVERFLOW_FREES;
  }
  if (capacity == 0) {
    info->overflowed += !info->fixed;
    return HAK_OVERFLOW_NONE;
  }
  info->overflowed += capacity - capacity / 2;
  return HAK_OVERFLOW_HALF;
}

void hak_policy_idle(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  forget_quota(info, cls);
  if (!info->fixed && hak_bin_capacity(info) + info->slow_start_bytes > 0) {
    heap->slow_start_bytes -= info->slow_start_bytes;
    info->slow_start_bytes = 0;
    info->fetched = 0;
    info->refills = 0;
    hak_policy_set_capacity(heap, cls, 0);
  }
}
