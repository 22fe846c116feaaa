/* Blocks on their way from threads that free to threads that allocate. cache.c stands above, slab.c and
 * run.c below. */
#include "depot.h"

#include "blocks/blocks.h"

enum { BATCH = 8 }; /* blocks that a flush takes out at a time */

hak_depot_t hak_depots[HAK_DEPOTS] HAK_LARGE_DATA;
/* Number of shards of each class in use. It grows under the lock of hak_depots[0], which serves no class. */
static _Atomic uint32_t shards_open = 1;
static _Atomic bool used
    HAK_START_DATA; /* a block was put into some shard; until then, no page of the shards is read */
/* The shard where this thread last met no other thread; its searches begin there. */
static _Thread_local uint32_t my_shard __attribute__((tls_model("initial-exec")));

static uint32_t shards(void) {
  return atomic_load_explicit(&shards_open, memory_order_relaxed);
}

bool hak_depot_is_used(void) {
  return atomic_load_explicit(&used, memory_order_relaxed);
}

uint32_t hak_depots_open(void) {
  return shards() * HAK_CLASS_COUNT;
}

static uint32_t capacity_of(uint32_t cls) {
  /* for runs, the capacity is one block of the largest class */
  return (hak_class_is_run(cls) ? hak_class_sizes[HAK_CLASS_COUNT - 1] : HAK_DEPOT_BYTES) / hak_class_sizes[cls];
}

static uint32_t count_of(const hak_depot_t *depot) {
  return atomic_load_explicit(&depot->count, memory_order_relaxed);
}

static void set_count_locked(hak_depot_t *depot, uint32_t count) {
  atomic_store_explicit(&depot->count, count, memory_order_relaxed);
}

static hak_depot_t *shard_of(uint32_t cls, uint32_t shard) {
  return &hak_depots[shard * HAK_CLASS_COUNT + cls];
}

/* Write only a change, since other threads use the same cache line. */
static void set_taken(uint32_t cls, bool taken) {
  if (hak_depot_is_taken(cls) != taken) {
    atomic_store_explicit(&hak_depots[cls].taken, taken, memory_order_relaxed);
  }
}

/* Open another shard, unless another thread did so first. */
static void open_shard(uint32_t open) {
  hak_lock(&hak_depots[0].lock);
  if (shards() == open) {
    atomic_store_explicit(&shards_open, open + 1, memory_order_relaxed);
  }
  hak_unlock(&hak_depots[0].lock);
}

/* Lock a shard. The search begins at my_shard, and takes the first shard that no other thread has locked. If all are
 * locked, it waits for the first. `wanted`: only a shard with blocks will do. NULL: no shard has blocks. That is the
 * usual case, and takes no lock. */
static hak_depot_t *enter(uint32_t cls, bool wanted) {
  hak_depot_t *first = NULL;
  uint32_t open = shards();
  for (uint32_t i = 0; i < open; i++) {
    uint32_t shard = (my_shard + i) % open;
    hak_depot_t *depot = shard_of(cls, shard);
    if (wanted && count_of(depot) == 0) {
      continue;
    }
    if (hak_lock_passes || hak_lock_try(&depot->lock)) {
      my_shard = first ? shard : my_shard;
      return depot;
    }
    first = first ? first : depot;
  }
  if (first) {
    if (!wanted && open < HAK_DEPOT_SHARDS) {
      open_shard(open);
    }
    hak_lock(&first->lock);
  }
  return first;
}

/* Give the shard a magazine for `blocks` blocks. It begins small and doubles, since most classes pass on few blocks. */
static void enlarge(hak_depot_t *depot, uint32_t blocks) {
  hak_magazine_t made = HAK_MAGAZINE_NONE;
  for (;;) {
    hak_lock(&depot->lock);
    bool enough = depot->magazine.size >= blocks;
    if (!enough && made.size > 0) {
      hak_magazine_t had = depot->magazine;
      hak_copy_words(hak_magazine_slots(&made) + 1, hak_magazine_slots(&had) + 1, count_of(depot));
      hak_magazine_set(&depot->magazine, &made);
      made = had;
      enough = true;
    }
    hak_unlock(&depot->lock);
    if (enough || !hak_magazine_make(&made, blocks)) {
      hak_magazine_drop(&made); /* the smaller one; or another thread was first */
      return;
    }
  }
}

uint32_t hak_depot_put(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count) {
  if (!hak_depot_is_used()) {
    atomic_store_explicit(&used, true, memory_order_relaxed);
  }
  hak_depot_t *depot = enter(cls, false);
  uint32_t wanted = count_of(depot) + count, most = capacity_of(cls);
  wanted = wanted < most ? wanted : most;
  if (depot->magazine.size < wanted) {
    hak_unlock(&depot->lock);
    enlarge(depot, wanted);
    hak_lock(&depot->lock);
  }
  uint32_t had = count_of(depot), size = depot->magazine.size, room = (size < most ? size : most) - had;
  uint32_t put = count < room ? count : room;
  hak_copy_words(hak_magazine_slots(&depot->magazine) + 1 + had, blocks + count - put, put);
  set_count_locked(depot, had + put);
  hak_unlock(&depot->lock);
  return count - put;
}

uint32_t hak_depot_take(uint32_t cls, hak_free_block_t **blocks, uint32_t want) {
  hak_depot_t *depot = hak_depot_is_used() ? enter(cls, true) : NULL;
  if (!depot) {
    return 0;
  }
  uint32_t has = count_of(depot), count = want < has ? want : has;
  set_count_locked(depot, has - count);
  hak_copy_words(blocks, hak_magazine_slots(&depot->magazine) + 1 + has - count, count);
  hak_unlock(&depot->lock);
  if (count > 0) {
    set_taken(cls, true);
  }
  return count;
}

static void flush_class(uint32_t cls) {
  hak_free_block_t *batch[BATCH];
  for (uint32_t count; (count = hak_depot_take(cls, batch, BATCH)) > 0;) {
    hak_run_return(batch, count, cls, "free");
  }
  set_taken(cls, false);
}

void hak_depot_flush(bool idle_only) {
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    if (!idle_only || !hak_depot_is_taken(cls)) {
      flush_class(cls);
    }
  }
}

void hak_depot_begin(void) {
  hak_depot_flush(true);
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    set_taken(cls, false);
  }
}

static void verify(hak_depot_t *depot, const char *function) {
  if (!hak_lock_try(&depot->lock)) {
    return;
  }
  const hak_free_block_t *damaged = NULL;
  hak_free_block_t **slots = hak_magazine_slots(&depot->magazine);
  for (uint32_t i = 1; i <= count_of(depot) && !damaged;
       i++) { /* marked, so that a block that is there twice is found */
    if (hak_is_marked_free(slots[i])) {
      hak_mark_taken(slots[i]);
    } else {
      damaged = slots[i];
    }
  }
  for (uint32_t i = 1; i <= count_of(depot) && !damaged; i++) {
    hak_mark_free(slots[i]);
  }
  hak_unlock(&depot->lock);
  if (damaged) {
    hak_freed_damaged(function, damaged);
  }
}

void hak_depot_verify(const char *function) {
  for (uint32_t i = 0; hak_depot_is_used() && i < hak_depots_open(); i++) {
    verify(&hak_depots[i], function);
  }
}

static bool holds(hak_depot_t *depot, const void *block) {
  bool held = false;
  hak_lock(&depot->lock);
  for (uint32_t i = 1; i <= count_of(depot) && !held; i++) {
    held = hak_magazine_slots(&depot->magazine)[i] == block;
  }
  hak_unlock(&depot->lock);
  return held;
}

bool hak_depot_holds(const void *block, uint32_t cls) {
  bool held = false;
  for (uint32_t i = 0; i < shards() && !held; i++) {
    held = holds(shard_of(cls, i), block);
  }
  return held;
}

size_t hak_depot_count(uint32_t cls) {
  size_t count = 0;
  for (uint32_t i = 0; hak_depot_is_used() && i < shards(); i++) {
    count += count_of(shard_of(cls, i));
  }
  return count;
}
