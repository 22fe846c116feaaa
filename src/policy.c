#include "cache.h"

#include "arena.h"
#include "options.h"

enum {
  START_BYTES = 8 << 10,     /* capacity of a small class in a new cache */
  START_MAX_BYTES = 4 << 10, /* larger blocks must earn theirs: a thread that touches each class once keeps little */
  GRANT_BYTES = 32 << 10,    /* but for so many bytes of them together */
  LEAST_BYTES = 4 << 10,     /* capacity that a thread which only frees ends up with, while the heap shrinks */
  LEAST_BLOCKS_MAX = 64,
  REFILL_BYTES = 16 << 10, /* fetched at a time, once a class has missed a few times */
  FIRST_REFILL_BYTES = 1 << 10,
  STREAK_MAX = 3,    /* overflows without a refill before a thread counts as one that only frees */
  CURRENT_AFTER = 3, /* refills before a thread keeps a slab for itself: until then it shares them */
  CLOSED_MAX_BYTES = HAK_CACHE_LINE,
  BUDGET_MIN_BYTES = 1 << 20,
  LENT_BYTES = 512 << 10, /* lent to all threads at most, and */
  LENT_SHARE = 256,       /* this part of what is in use */
};

static _Atomic size_t caches_open, lent_bytes;

void hak_cache_set_open(size_t caches) {
  atomic_store_explicit(&caches_open, caches, memory_order_relaxed);
}

size_t hak_caches_open(void) {
  size_t open = atomic_load_explicit(&caches_open, memory_order_relaxed);
  return open ? open : 1;
}

static int32_t blocks_within(size_t bytes, uint32_t cls, int32_t low, int32_t high) {
  int32_t blocks = (int32_t)(bytes / hak_class_sizes[cls]);
  return blocks < low ? low : blocks > high ? high : blocks;
}

static size_t start_bytes(void) {
  size_t most = hak_option_size(HAK_OPTION_CACHE_BYTES);
  return most < START_BYTES ? most : START_BYTES;
}

/* What a thread that only frees may gather before it returns it. Where another thread takes the blocks up again, a
 * larger batch is cheaper; where the heap shrinks, what is kept back holds pages that nobody needs. */
static int32_t least_capacity(const hak_heap_t *heap, uint32_t cls) {
  return heap->heap_shrinks ? blocks_within(LEAST_BYTES, cls, 1, LEAST_BLOCKS_MAX)
                            : blocks_within(start_bytes(), cls, 2, INT32_MAX);
}

static bool is_large(uint32_t cls) {
  return hak_class_sizes[cls] > START_MAX_BYTES;
}

static size_t *budget_of(hak_heap_t *heap, uint32_t cls) {
  return is_large(cls) ? &heap->large_budget_bytes : &heap->budget_bytes;
}

void hak_policy_set_capacity(hak_heap_t *heap, uint32_t cls, int32_t capacity) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_bin_t *bin = &heap->bin[cls];
  int32_t change = capacity - hak_bin_capacity(info);
  atomic_store_explicit(&info->capacity, capacity, memory_order_relaxed);
  if (!info->closed) {
    hak_bin_set_room(bin, hak_bin_room(bin) + change);
  }
  if (info->adaptive) {
    size_t bytes = (size_t)((int64_t)change * hak_class_sizes[cls]);
    *budget_of(heap, cls) += bytes;
    if (is_large(cls)) {
      hak_arena_count_cached(bytes);
    }
  }
}

static int64_t fixed_capacity(uint32_t cls) {
  uint32_t band = hak_class_bands[cls];
  if (!hak_option(HAK_OPTION_UNIFIED_CACHE)) {
    return 0;
  }
  return band < HAK_BAND_COUNT ? hak_option(HAK_OPTION_CACHE_C0 + band) : HAK_OPTION_AUTO;
}

int32_t hak_policy_start_capacity(uint32_t cls) {
  int64_t fixed = fixed_capacity(cls);
  if (fixed != HAK_OPTION_AUTO) {
    return (int32_t)fixed;
  }
  return is_large(cls) ? 0 : blocks_within(start_bytes(), cls, 2, INT32_MAX);
}

void hak_policy_open(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  hak_bin_set_room(&heap->bin[cls], 0);
  atomic_store_explicit(&info->capacity, 0, memory_order_relaxed);
  info->refill_blocks = (uint32_t)blocks_within(FIRST_REFILL_BYTES, cls, 1, INT32_MAX);
  info->adaptive = fixed_capacity(cls) == HAK_OPTION_AUTO;
  info->closed = hak_policy_start_capacity(cls) > 0 && hak_class_sizes[cls] <= CLOSED_MAX_BYTES;
  info->returned = 0;
  info->streak = 0;
  info->refills = 0;
  info->seen_head = NULL;
  hak_policy_set_capacity(heap, cls, hak_policy_start_capacity(cls));
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
  hak_policy_set_capacity(heap, cls, hak_bin_capacity(info) + (int32_t)blocks);
  return true;
}

void hak_policy_take_back(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  int32_t least = hak_bin_capacity(info) - (int32_t)info->lent, start = hak_policy_start_capacity(cls);
  if (info->lent > 0 && start < hak_bin_capacity(info)) {
    hak_policy_set_capacity(heap, cls, least > start ? least : start);
  }
  forget_lent(info, cls);
}

void hak_policy_close(hak_heap_t *heap) {
  for (uint32_t c = 1; c <= HAK_GRANT_LAST; c++) {
    forget_lent(&heap->info[c], c);
  }
  hak_arena_count_cached(-heap->large_budget_bytes);
  heap->budget_bytes = heap->large_budget_bytes = heap->granted_bytes = 0;
}

bool hak_policy_is_off(const hak_bin_info_t *info) {
  return !info->adaptive && atomic_load_explicit(&info->capacity, memory_order_relaxed) == 0;
}

uint32_t hak_policy_refill(hak_bin_info_t *info, uint32_t cls) {
  uint32_t want = info->refill_blocks, most_kept = (uint32_t)hak_bin_capacity(info) + 1; /* one is handed out */
  uint32_t most = (uint32_t)blocks_within(REFILL_BYTES, cls, 1, INT32_MAX);
  info->refill_blocks = want * 2 < most ? want * 2 : most;
  info->streak = 0;
  info->refills = (uint8_t)(info->refills + (info->refills < CURRENT_AFTER));
  return want < most_kept || (info->adaptive && most_kept > 1) ? want : most_kept;
}

bool hak_policy_keeps_current(const hak_bin_info_t *info) {
  return info->refills >= CURRENT_AFTER && (!info->adaptive || info->capacity > 0);
}

/* Blocks that this thread fetches again after it returned them deserve room: as many as it would have saved, as long
 * as the process has enough in use for that not to matter. */
void hak_policy_fetched(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t again = blocks < info->returned ? blocks : info->returned;
  if (again == 0 || !info->adaptive) {
    return;
  }
  info->returned -= again;
  size_t most = hak_option_size(HAK_OPTION_CACHE_BYTES) / hak_class_sizes[cls],
         wanted = (size_t)hak_bin_capacity(info) + again;
  size_t share = (hak_arena_used_slices() << HAK_SLICE_SHIFT) / hak_caches_open();
  size_t least = BUDGET_MIN_BYTES;
  if (is_large(cls)) { /* what a thread keeps of these, the arena does not: see hak_arena_count_cached */
    least = hak_option_size(HAK_OPTION_RETAIN) / hak_caches_open();
  }
  size_t allowed = share > least ? share : least;
  bool first = wanted == 1; /* one block makes the difference between a cache and none */
  if (wanted <= most && (first || *budget_of(heap, cls) + (size_t)again * hak_class_sizes[cls] <= allowed)) {
    hak_policy_set_capacity(heap, cls, (int32_t)wanted);
  }
}

static bool grant(hak_heap_t *heap, uint32_t cls) {
  size_t bytes = hak_class_sizes[cls];
  if (heap->granted_bytes + bytes > GRANT_BYTES || bytes > hak_option_size(HAK_OPTION_CACHE_BYTES)) {
    return false;
  }
  heap->granted_bytes += bytes;
  hak_policy_set_capacity(heap, cls, 1);
  return true;
}

hak_overflow_t hak_policy_overflow(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  int32_t capacity = hak_bin_capacity(info);
  info->busy = true;
  if (capacity == 0 && !(info->adaptive && grant(heap, cls))) {
    info->returned += info->adaptive;
    return HAK_OVERFLOW_NONE;
  }
  if (capacity > 0 && info->adaptive && ++info->streak > STREAK_MAX) {
    int32_t least = least_capacity(heap, cls);
    least = least < capacity ? least : capacity;
    hak_policy_set_capacity(heap, cls, capacity / 2 > least ? capacity / 2 : least);
    info->returned += (uint32_t)capacity;
    return HAK_OVERFLOW_FREES;
  }
  if (hak_bin_room(&heap->bin[cls]) <= 0) {
    info->returned += (uint32_t)(capacity - capacity / 2);
  }
  return HAK_OVERFLOW_HALF;
}

void hak_policy_idle(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  int32_t start = hak_policy_start_capacity(cls);
  forget_lent(info, cls);
  if (!info->adaptive || hak_bin_capacity(info) <= start) {
    return;
  }
  if (start == 0 && hak_bin_capacity(info) == 1 && heap->granted_bytes >= hak_class_sizes[cls]) {
    heap->granted_bytes -= hak_class_sizes[cls];
  }
  info->refills = 0;
  hak_policy_set_capacity(heap, cls, start);
}
