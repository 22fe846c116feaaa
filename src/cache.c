#include "cache.h"

#include "arena.h"
#include "misuse.h"
#include "options.h"
#include "os.h"

enum {
  START_BYTES = 8 << 10, /* limit of a class in a new cache */
  LEAST_BYTES = 4 << 10, /* limit that a thread which only frees ends up with, while the heap shrinks */
  LEAST_BLOCKS_MAX = 64,
  REFILL_BYTES = 16 << 10, /* fetched at a time, once a class has missed a few times */
  FIRST_REFILL_BYTES = 1 << 10,
  STREAK_MAX = 3, /* overflows without a refill before a thread counts as one that only frees */
  FOREIGN_BATCH = 64,
  CLOSED_MAX_BYTES = HAK_CACHE_LINE,
  EVENTS_PER_LOOK = 64,
  LOOK_MS = 250,
  SHRINKS_UNITS = 4, /* fewer in use than at the last look: the heap shrinks */
  BUDGET_MIN_BYTES = 1 << 20,
};

static _Atomic uint32_t flush_epoch;
static _Atomic size_t caches_open;

static int32_t limit_of(hak_shelf_t *shelf) {
  return atomic_load_explicit(&shelf->limit, memory_order_relaxed);
}

static int32_t blocks_within(uint32_t bytes, uint32_t cls, int32_t low, int32_t high) {
  int32_t blocks = (int32_t)(bytes / hak_class_sizes[cls]);
  return blocks < low ? low : blocks > high ? high : blocks;
}

static uint32_t start_bytes(void) {
  return hak_options.cache_class_bytes < START_BYTES ? (uint32_t)hak_options.cache_class_bytes : START_BYTES;
}

/* What a thread that only frees may gather before it returns it. Where another thread takes the blocks up again, a
 * larger batch is cheaper; where the heap shrinks, what is kept back holds pages that nobody needs. */
static int32_t least_limit(const hak_heap_t *heap, uint32_t cls) {
  return heap->heap_shrinks ? blocks_within(LEAST_BYTES, cls, 1, LEAST_BLOCKS_MAX)
                            : blocks_within(start_bytes(), cls, 2, INT32_MAX);
}

static void set_limit(hak_heap_t *heap, uint32_t cls, int32_t limit) {
  hak_shelf_t *shelf = &heap->shelf[cls];
  hak_bin_t *bin = &heap->bin[cls];
  int32_t change = limit - limit_of(shelf);
  atomic_store_explicit(&shelf->limit, limit, memory_order_relaxed);
  if (!shelf->closed) {
    hak_bin_set_room(bin, hak_bin_room(bin) + change);
  }
  if (shelf->adaptive) {
    heap->budget_bytes += (size_t)((int64_t)change * hak_class_sizes[cls]);
  }
}

static int32_t start_limit(uint32_t cls) {
  int band = hak_class_bands[cls];
  int64_t fixed = band < HAK_BAND_COUNT ? hak_options.band_blocks[band] : HAK_OPTION_AUTO;
  if (!hak_options.unified_cache) {
    return 0;
  }
  return fixed != HAK_OPTION_AUTO ? (int32_t)fixed : blocks_within(start_bytes(), cls, 2, INT32_MAX);
}

void hak_cache_open(hak_heap_t *heap) {
  heap->budget_bytes = 0;
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_shelf_t *shelf = &heap->shelf[c];
    int band = hak_class_bands[c];
    heap->bin[c].inverse = hak_class_inverses[c];
    HAK_ASSERT(!heap->bin[c].head && !shelf->current && !shelf->foreign);
    hak_bin_set_room(&heap->bin[c], 0);
    atomic_store_explicit(&shelf->limit, 0, memory_order_relaxed);
    shelf->refill_blocks = (uint32_t)blocks_within(FIRST_REFILL_BYTES, c, 1, INT32_MAX);
    shelf->adaptive =
        hak_options.unified_cache && (band == HAK_BAND_COUNT || hak_options.band_blocks[band] == HAK_OPTION_AUTO);
    shelf->closed = start_limit(c) > 0 && hak_class_sizes[c] <= CLOSED_MAX_BYTES;
    shelf->returned = 0;
    shelf->streak = 0;
    shelf->seen_head = NULL;
    set_limit(heap, c, start_limit(c));
  }
}

static void drop_current(hak_shelf_t *shelf) {
  hak_slab_t *slab = shelf->current;
  if (slab) {
    shelf->current = NULL;
    hak_slab_drop(slab);
  }
}

/* Return all but the `keep` newest blocks of the list. */
static void return_older(hak_heap_t *heap, uint32_t cls, int32_t keep, const char *function) {
  hak_bin_t *bin = &heap->bin[cls];
  hak_free_block_t *older = bin->head, *last = NULL;
  int32_t kept = 0;
  for (; kept < keep && older; kept++) {
    if (((uintptr_t)older->link ^ older->tag) != heap->key) {
      hak_misuse(function, HAK_MISUSE_CORRUPTED, older);
    }
    last = older;
    older = older->link;
  }
  if (last) {
    last->link = NULL;
    last->tag = heap->key;
  } else {
    bin->head = NULL;
  }
  if (!heap->shelf[cls].closed) {
    hak_bin_set_room(bin, limit_of(&heap->shelf[cls]) - kept);
  }
  hak_slab_return(older, heap->key, function);
}

static void return_foreign(hak_heap_t *heap, uint32_t cls, const char *function) {
  hak_shelf_t *shelf = &heap->shelf[cls];
  hak_free_block_t *chain = shelf->foreign;
  shelf->foreign = NULL;
  shelf->foreign_count = 0;
  hak_slab_return(chain, heap->key, function);
}

static void flush_class(hak_heap_t *heap, uint32_t cls, const char *function) {
  return_older(heap, cls, 0, function);
  return_foreign(heap, cls, function);
  drop_current(&heap->shelf[cls]);
}

void hak_cache_flush(hak_heap_t *heap, const char *function) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    flush_class(heap, c, function);
  }
}

/* A block that is in the chain twice is met a second time with its own address for a tag. */
static void verify_chain(hak_free_block_t *chain, uintptr_t key, const char *function) {
  for (hak_free_block_t *block = chain; block; block = block->link) {
    if (((uintptr_t)block->link ^ block->tag) != key) {
      hak_slab_damaged(function, block);
    }
    if (hak_slab_holds(block)) {
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
    verify_chain(heap->bin[c].head, heap->key, function);
    verify_chain(heap->shelf[c].foreign, heap->key, function);
  }
}

bool hak_cache_holds(const hak_heap_t *heap, uint32_t cls, const hak_free_block_t *wanted) {
  const hak_free_block_t *block = heap->bin[cls].head;
  while (block && block != wanted && ((uintptr_t)block->link ^ block->tag) == heap->key) {
    block = block->link;
  }
  return block == wanted;
}

void hak_cache_request_flush(void) {
  atomic_fetch_add_explicit(&flush_epoch, 1, memory_order_relaxed);
}

void hak_cache_set_open(size_t caches) {
  atomic_store_explicit(&caches_open, caches, memory_order_relaxed);
}

size_t hak_caches_open(void) {
  size_t open = atomic_load_explicit(&caches_open, memory_order_relaxed);
  return open ? open : 1;
}

void hak_cache_close_orphan(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_shelf_t *shelf = &heap->shelf[c];
    hak_free_block_t *chains[] = {heap->bin[c].head, shelf->foreign};
    heap->bin[c].head = shelf->foreign = NULL;
    shelf->foreign_count = 0;
    hak_slab_return_orphans(chains[0], heap->key);
    hak_slab_return_orphans(chains[1], heap->key);
    drop_current(shelf);
  }
}

/* A class that the thread did not touch since the last look holds slabs for nothing. */
static void return_idle_lists(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_bin_t *bin = &heap->bin[c];
    hak_shelf_t *shelf = &heap->shelf[c];
    if (!shelf->busy && bin->head == shelf->seen_head && hak_bin_room(bin) == shelf->seen_room) {
      flush_class(heap, c, "free");
      if (shelf->adaptive && limit_of(shelf) > start_limit(c)) {
        set_limit(heap, c, start_limit(c));
      }
    }
    shelf->busy = false;
    shelf->seen_head = bin->head;
    shelf->seen_room = hak_bin_room(bin);
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
    size_t used = hak_arena_used_units();
    heap->heap_shrinks = used + SHRINKS_UNITS <= heap->used_seen;
    heap->used_seen = used;
    uint64_t now_ms = hak_os_now_ms();
    if (now_ms - heap->looked_ms >= LOOK_MS) {
      heap->looked_ms = now_ms;
      hak_arena_decay(now_ms);
      return_idle_lists(heap);
    }
  }
}

static void open_bin(hak_heap_t *heap, uint32_t cls) {
  hak_shelf_t *shelf = &heap->shelf[cls];
  if (shelf->closed) {
    return_foreign(heap, cls, "free");
    shelf->closed = false;
    hak_bin_set_room(&heap->bin[cls], limit_of(shelf));
  }
}

static hak_chain_t fetch(hak_shelf_t *shelf, uint32_t cls, uint32_t want, uintptr_t key) {
  hak_chain_t chain = {NULL, 0};
  while (chain.count == 0) {
    if (!shelf->current && !(shelf->current = hak_slab_acquire(cls))) {
      break;
    }
    chain = hak_slab_take(shelf->current, want, key);
    if (chain.count == 0) {
      drop_current(shelf);
    }
  }
  return chain;
}

/* Blocks that this thread fetches again after it returned them deserve room: as many as it would have saved, as long
 * as the process has enough in use for that not to matter. */
static void earn_room(hak_heap_t *heap, uint32_t cls, uint32_t fetched) {
  hak_shelf_t *shelf = &heap->shelf[cls];
  uint32_t again = fetched < shelf->returned ? fetched : shelf->returned;
  if (again == 0 || !shelf->adaptive) {
    return;
  }
  shelf->returned -= again;
  size_t most = hak_options.cache_class_bytes / hak_class_sizes[cls], wanted = (size_t)limit_of(shelf) + again;
  size_t share = (hak_arena_used_units() << HAK_UNIT_SHIFT) / hak_caches_open();
  size_t allowed = share > BUDGET_MIN_BYTES ? share : BUDGET_MIN_BYTES;
  if (wanted <= most && heap->budget_bytes + (size_t)again * hak_class_sizes[cls] <= allowed) {
    set_limit(heap, cls, (int32_t)wanted);
  }
}

void *hak_cache_refill(hak_heap_t *heap, uint32_t cls, size_t bytes) {
  hak_shelf_t *shelf = &heap->shelf[cls];
  hak_bin_t *bin = &heap->bin[cls];
  look_around(heap);
  atomic_store_explicit(&shelf->asked_bytes, shelf->asked_bytes + bytes, memory_order_relaxed);
  atomic_store_explicit(&shelf->asked_count, shelf->asked_count + 1, memory_order_relaxed);
  if (limit_of(shelf) == 0) {
    return hak_slab_take_one(cls);
  }
  open_bin(heap, cls);
  shelf->busy = true;
  shelf->streak = 0;
  uint32_t want = shelf->refill_blocks, most_kept = (uint32_t)limit_of(shelf) + 1; /* one is handed out */
  want = shelf->adaptive || want < most_kept ? want : most_kept;
  hak_chain_t chain = fetch(shelf, cls, want, heap->key);
  hak_free_block_t *block = chain.first;
  if (!block) {
    return NULL;
  }
  uint32_t most = (uint32_t)blocks_within(REFILL_BYTES, cls, 1, INT32_MAX);
  shelf->refill_blocks = shelf->refill_blocks * 2 < most ? shelf->refill_blocks * 2 : most;
  bin->head = block->link;
  hak_bin_set_room(bin, hak_bin_room(bin) - (int32_t)chain.count + 1);
  block->tag = (uintptr_t)block;
  earn_room(heap, cls, chain.count);
  return block;
}

static void free_foreign(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block) {
  hak_shelf_t *shelf = &heap->shelf[cls];
  block->link = shelf->foreign;
  block->tag = (uintptr_t)shelf->foreign ^ heap->key;
  shelf->foreign = block;
  if (++shelf->foreign_count == FOREIGN_BATCH) {
    return_foreign(heap, cls, "free");
  }
}

void hak_cache_overflow(hak_heap_t *heap, uint32_t cls, hak_free_block_t *block) {
  hak_shelf_t *shelf = &heap->shelf[cls];
  look_around(heap);
  int32_t limit = limit_of(shelf);
  if (limit == 0) {
    hak_slab_return_one(block, "free");
    return;
  }
  shelf->busy = true;
  if (shelf->closed) {
    free_foreign(heap, cls, block);
    return;
  }
  bool only_frees = shelf->adaptive && ++shelf->streak > STREAK_MAX;
  if (only_frees) {
    int32_t least = least_limit(heap, cls);
    set_limit(heap, cls, limit / 2 > least ? limit / 2 : least);
    drop_current(shelf);
  }
  hak_bin_t *bin = &heap->bin[cls];
  if (hak_bin_room(bin) <= 0) {
    return_older(heap, cls, only_frees ? 0 : limit / 2, "free");
    shelf->returned += (uint32_t)(only_frees ? limit : limit - limit / 2);
  }
  hak_bin_push(heap, bin, block);
}

void hak_cache_check(hak_heap_t *heap) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_shelf_t *shelf = &heap->shelf[c];
    int32_t blocks = 0;
    uint32_t foreign = 0;
    for (hak_free_block_t *block = heap->bin[c].head; block; block = block->link, blocks++) {
      HAK_VERIFY(hak_class_at(block) == c && hak_is_block_start(block, hak_class_inverses[c]));
      HAK_VERIFY(((uintptr_t)block->link ^ block->tag) == heap->key);
    }
    for (hak_free_block_t *block = shelf->foreign; block; block = block->link, foreign++) {
      HAK_VERIFY(hak_class_at(block) == c && ((uintptr_t)block->link ^ block->tag) == heap->key);
    }
    HAK_VERIFY(foreign == shelf->foreign_count);
    HAK_VERIFY(shelf->closed ? blocks == 0 : blocks == limit_of(shelf) - hak_bin_room(&heap->bin[c]));
    HAK_VERIFY(!shelf->current || (atomic_load(&shelf->current->control) & HAK_SLAB_CURRENT));
  }
}
