/* How much a thread caches: capacity of each class, from a first quota and from what was fetched again. cache.c asks.
 */
#include "cache.h"

#include "arena.h"
#include "depot.h"
#include "options.h"

enum {
  UNEARNED_FIRST_BYTES = 4 << 10, /* capacity of a class that overflows for the first time, at least a block; */
  UNEARNED_BYTES = 8 << 10,       /* and for the second time, without a need shown; */
  UNEARNED_BLOCK_MAX = 32 << 10,  /* not larger blocks; */
  UNEARNED_MAX_BYTES = 96 << 10,  /* of all classes of a thread together so much, */
  UNEARNED_LEAST_BYTES = 32 << 10,
  UNEARNED_SHARED_BYTES = 2 << 20, /* or its share of this, but no less than that */
  LARGE_ABOVE = 4 << 10,           /* bytes of a block: these have a budget of their own */
  LEAST_BYTES = 1 << 10,           /* capacity that a thread which only frees ends up with, where nobody takes it up, */
  LEAST_BLOCKS_MAX = 64,
  BATCH_SHARED_BYTES = 512 << 10, /* and where others do: its share of this, but no less and no more than */
  BATCH_LEAST_BYTES = 8 << 10,
  BATCH_MOST_BYTES = 32 << 10,
  BATCHES_SHARED_BYTES = 32 << 20, /* those of all classes of a thread: by the square, for it may sleep */
  BATCHES_LEAST_BYTES = 32 << 10,
  REFILL_BYTES = 16 << 10,        /* fetched at a time at most: half of what was fetched so far */
  FIRST_SHARED_BYTES = 256 << 10, /* the first time a thread's share of this, but no less and no more than */
  FIRST_LEAST_BYTES = 256,
  FIRST_MOST_BYTES = 1 << 10,
  FETCHED_MAX = 1 << 16,          /* where that count stands still */
  STREAK_MAX = 3,                 /* overflows without a refill before a thread counts as one that only frees */
  CURRENT_AFTER = 3,              /* refills, and bytes fetched, before a thread keeps a slab for itself: */
  CURRENT_AFTER_BYTES = 32 << 10, /* until then it shares them */
  CLOSED_MAX_BYTES = HAK_CACHE_LINE,
  BUDGET_SHARED_BYTES = 64 << 20, /* a cache may hold its share of this, but no less and no more than */
  BUDGET_LEAST_BYTES = 128 << 10,
  BUDGET_MOST_BYTES = 1 << 20, /* whatever is in use */
  /* Eighths of what its thread has in use that a cache may hold: less costs faults, more feeds itself. Slices in
   * a cache are of no use to other sizes, so runs have room within the first half only. */
  SMALL_EIGHTHS = 24,
  LARGE_EIGHTHS = 12,
  RUN_EIGHTHS = 4,
  EVENTS_PER_COUNT = 16,
  LIMIT_PART = 4,         /* and all caches together this part of a limit: nobody else can take what a thread keeps */
  LENT_BYTES = 512 << 10, /* lent to all threads at most, and */
  LENT_SHARE = 256,       /* this part of what is in use */
};

static _Atomic size_t caches_open, lent_bytes, budgets_bytes; /* of all threads */

void hak_cache_set_open(size_t caches) {
  atomic_store_explicit(&caches_open, caches, memory_order_relaxed);
}

size_t hak_caches_open(void) {
  size_t open = atomic_load_explicit(&caches_open, memory_order_relaxed);
  return open ? open : 1;
}

static uint32_t blocks_within(size_t bytes, uint32_t cls, uint32_t low, uint32_t high) {
  uint32_t blocks = (uint32_t)(bytes / hak_class_sizes[cls]);
  return blocks < low ? low : blocks > high ? high : blocks;
}

/* A thread's part of what all of them may have. */
static size_t share_of(size_t shared, size_t least, size_t most) {
  size_t share = shared / hak_caches_open();
  return share < least ? least : share < most ? share : most;
}

/* A larger batch costs fewer handshakes; but each thread may hold one of every class. */
static size_t batch_bytes(void) {
  return share_of(BATCH_SHARED_BYTES, BATCH_LEAST_BYTES, BATCH_MOST_BYTES);
}

static bool is_large(uint32_t cls) {
  return hak_class_sizes[cls] > LARGE_ABOVE;
}

static size_t *budget_of(hak_heap_t *heap, uint32_t cls) {
  return is_large(cls) ? &heap->large_budget_bytes : &heap->budget_bytes;
}

void hak_policy_set_capacity(hak_heap_t *heap, uint32_t cls, uint32_t capacity) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t change = ((size_t)capacity - hak_bin_capacity(info)) * hak_class_sizes[cls]; /* may be below 0 */
  atomic_store_explicit(&info->capacity, capacity, memory_order_relaxed);
  hak_bin_set_end(heap, cls);
  if (info->adaptive && change != 0) {
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
  int64_t fixed = fixed_capacity(cls);
  atomic_store_explicit(&info->capacity, 0, memory_order_relaxed);
  info->adaptive = fixed == HAK_OPTION_AUTO;
  info->closed = hak_class_sizes[cls] <= CLOSED_MAX_BYTES &&
                 (info->adaptive ? hak_option_size(HAK_OPTION_CACHE_BYTES) > 0 : fixed > 0);
  info->fetched = info->unearned_bytes = info->returned = info->streak = 0;
  info->refills = 0;
  info->seen_head = NULL;
  hak_policy_set_capacity(heap, cls, info->adaptive ? 0 : (uint32_t)fixed);
}

/* The capacity is set anew, so that what was lent is part of it no more. */
static void forget_lent(hak_bin_info_t *info, uint32_t cls) {
  atomic_fetch_sub_explicit(&lent_bytes, (size_t)info->lent * hak_class_sizes[cls], memory_order_relaxed);
  info->lent = 0;
}

bool hak_policy_lend(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t bytes = (size_t)blocks * hak_class_sizes[cls];
  size_t most = LENT_BYTES + (hak_arena_used_slices() << HAK_SLICE_SHIFT) / LENT_SHARE;
  if (!info->adaptive || info->closed || atomic_load_explicit(&lent_bytes, memory_order_relaxed) + bytes > most) {
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
  atomic_fetch_sub_explicit(&budgets_bytes, heap->budget_bytes + heap->large_budget_bytes, memory_order_relaxed);
  heap->budget_bytes = heap->large_budget_bytes = heap->unearned_bytes = 0;
}

bool hak_policy_is_off(const hak_bin_info_t *info) {
  return !info->adaptive && hak_bin_capacity(info) == 0;
}

bool hak_policy_passes_on(const hak_heap_t *heap, uint32_t cls) {
  bool cached = !hak_policy_is_off(&heap->info[cls]) && hak_class_sizes[cls] <= hak_option_size(HAK_OPTION_CACHE_BYTES);
  return cached && hak_caches_open() > 1 && (!heap->heap_shrinks || hak_depot_is_taken(cls));
}

uint32_t hak_policy_refill(hak_bin_info_t *info, uint32_t cls) {
  size_t few = share_of(FIRST_SHARED_BYTES, FIRST_LEAST_BYTES, FIRST_MOST_BYTES);
  uint32_t first = blocks_within(few, cls, 1, UINT32_MAX), capacity = hak_bin_capacity(info);
  uint32_t most = blocks_within(REFILL_BYTES, cls, 1, UINT32_MAX), want = info->fetched / 2;
  info->streak = 0;
  info->refills = (uint8_t)(info->refills + (info->refills < CURRENT_AFTER));
  if (capacity == 0 && is_large(cls)) {
    return 1;
  }
  want = want < first ? first : want < most ? want : most;
  return want <= capacity || info->adaptive ? want : capacity + 1; /* one is handed out */
}

bool hak_policy_keeps_current(const hak_bin_info_t *info, uint32_t cls) {
  return info->refills >= CURRENT_AFTER && (size_t)info->fetched * hak_class_sizes[cls] >= CURRENT_AFTER_BYTES;
}

static size_t all_budgets_bytes(void) {
  return atomic_load_explicit(&budgets_bytes, memory_order_relaxed);
}

/* The caches have their part of a limit. */
static bool at_limit(void) {
  size_t limit = hak_option_size(HAK_OPTION_MEMORY_LIMIT);
  return limit > 0 && all_budgets_bytes() > limit / LIMIT_PART;
}

/* What a thread has in use, as far as can be told: its share of all but for what lies in its bins, which is counted
 * every few refills and overflows, and for what may lie in those of others, who may sleep: else each cache would pay
 * for the next one. */
static size_t in_use(hak_heap_t *heap, size_t others) {
  if (heap->events - heap->cached_at >= EVENTS_PER_COUNT) {
    heap->cached_at = heap->events;
    heap->cached_bytes = hak_cache_bytes(heap);
  }
  size_t used = hak_arena_used_slices() << HAK_SLICE_SHIFT, cached = heap->cached_bytes + others;
  return used > cached ? (used - cached) / hak_caches_open() : 0;
}

/* Whether the budgets have room for so many more blocks. The first of a class is the difference between a cache and
 * none, and always has it, unless it is a run: thousands of threads may sleep, each with one. */
static bool may_grow(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  bool first = !hak_class_is_run(cls) && hak_bin_capacity(&heap->info[cls]) + blocks == 1;
  size_t bytes = (size_t)blocks * hak_class_sizes[cls], kept = *budget_of(heap, cls) + bytes;
  size_t least = is_large(cls) ? hak_option_size(HAK_OPTION_RETAIN) / hak_caches_open()
                               : share_of(BUDGET_SHARED_BYTES, BUDGET_LEAST_BYTES, BUDGET_MOST_BYTES);
  size_t eighths = hak_class_is_run(cls) ? RUN_EIGHTHS : is_large(cls) ? LARGE_EIGHTHS : SMALL_EIGHTHS;
  size_t others = all_budgets_bytes() - heap->budget_bytes - heap->large_budget_bytes;
  return first || kept <= least || (!at_limit() && kept <= in_use(heap, others) / 8 * eighths);
}

/* Blocks that this thread fetches again after it returned them deserve room: as many as it would have saved, as long
 * as the process has enough in use for that not to matter. */
void hak_policy_fetched(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t again = blocks < info->returned ? blocks : info->returned;
  info->fetched += info->fetched < FETCHED_MAX ? blocks : 0;
  if (again == 0 || !info->adaptive) {
    return;
  }
  info->returned -= again;
  size_t wanted = (size_t)hak_bin_capacity(info) + again;
  if (wanted <= blocks_within(hak_option_size(HAK_OPTION_CACHE_BYTES), cls, 0, HAK_MAGAZINE_MAX) &&
      may_grow(heap, cls, again)) {
    hak_policy_set_capacity(heap, cls, (uint32_t)wanted);
  }
}

/* What a thread that only frees is to gather before it lets go of it: half of what it does now, or twice as much. */
static uint32_t towards_batch(hak_heap_t *heap, uint32_t cls, uint32_t capacity) {
  uint32_t batch = hak_policy_passes_on(heap, cls) ? blocks_within(batch_bytes(), cls, 2, UINT32_MAX)
                                                   : blocks_within(LEAST_BYTES, cls, 1, LEAST_BLOCKS_MAX);
  if (capacity >= batch) {
    return capacity / 2 > batch ? capacity / 2 : batch;
  }
  uint32_t more = capacity > 0 ? capacity : blocks_within(UNEARNED_FIRST_BYTES, cls, 1, UINT32_MAX);
  more = batch - capacity < more ? batch - capacity : more;
  bool allowed = (size_t)(capacity + more) * hak_class_sizes[cls] <= hak_option_size(HAK_OPTION_CACHE_BYTES);
  size_t kept = heap->budget_bytes + heap->large_budget_bytes;
  allowed &= kept + (size_t)more * hak_class_sizes[cls] <=
             share_of(BATCHES_SHARED_BYTES / hak_caches_open(), BATCHES_LEAST_BYTES, SIZE_MAX);
  return allowed && !hak_class_is_run(cls) && may_grow(heap, cls, more) ? capacity + more : capacity;
}

/* More capacity without a need shown, as long as all of it came so. */
static bool grant_unearned(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  size_t size = hak_class_sizes[cls], capacity = hak_bin_capacity(info), has = capacity * size;
  size_t wanted = capacity == 0 ? blocks_within(UNEARNED_FIRST_BYTES, cls, 1, UINT32_MAX) * size : 2 * has;
  size_t share = share_of(UNEARNED_SHARED_BYTES, UNEARNED_LEAST_BYTES, UNEARNED_MAX_BYTES);
  if (has != info->unearned_bytes || size > UNEARNED_BLOCK_MAX || (capacity > 0 && wanted > UNEARNED_BYTES) ||
      wanted > hak_option_size(HAK_OPTION_CACHE_BYTES) || heap->unearned_bytes + wanted - has > share) {
    return false;
  }
  heap->unearned_bytes += wanted - has;
  info->unearned_bytes += (uint32_t)(wanted - has);
  hak_policy_set_capacity(heap, cls, (uint32_t)(wanted / size));
  return true;
}

hak_overflow_t hak_policy_overflow(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t capacity = hak_bin_capacity(info);
  info->busy = true;
  if (info->adaptive && grant_unearned(heap, cls)) {
    return HAK_OVERFLOW_GROWN;
  }
  if (info->adaptive && ++info->streak > STREAK_MAX) {
    hak_policy_set_capacity(heap, cls, towards_batch(heap, cls, capacity));
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

void hak_policy_idle(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  forget_lent(info, cls);
  if (info->adaptive && hak_bin_capacity(info) + info->unearned_bytes > 0) {
    heap->unearned_bytes -= info->unearned_bytes;
    info->unearned_bytes = 0;
    info->fetched = 0;
    info->refills = 0;
    hak_policy_set_capacity(heap, cls, 0);
  }
}
