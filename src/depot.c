#include "depot.h"

#include "slab.h"

#include <string.h>

enum {
  BYTES_MAX = 256 << 10,
  BLOCKS_MAX = 4096,
  BATCH = 8, /* blocks taken out at a time to be returned */
};

hak_depot_t hak_depots[HAK_RUN_FIRST] = {
    [0 ... HAK_RUN_FIRST - 1] = {.lock = HAK_LOCK_INIT, .magazine = {hak_magazine_none + 1, 0}}};

static uint32_t capacity_of(uint32_t cls) {
  uint32_t blocks = BYTES_MAX / hak_class_sizes[cls];
  return blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
}

static uint32_t count_of(const hak_depot_t *depot) {
  return atomic_load_explicit(&depot->count, memory_order_relaxed);
}

static void set_count_locked(hak_depot_t *depot, uint32_t count) {
  atomic_store_explicit(&depot->count, count, memory_order_relaxed);
}

/* It has a magazine. False: no memory for one. */
static bool make_ready(hak_depot_t *depot, uint32_t cls) {
  hak_magazine_t made = HAK_MAGAZINE_NONE;
  for (;;) {
    hak_lock(&depot->lock);
    bool ready = depot->magazine.size > 0;
    if (!ready && made.size > 0) {
      depot->magazine = made;
      made = HAK_MAGAZINE_NONE;
      ready = true;
    }
    hak_unlock(&depot->lock);
    if (ready || !hak_magazine_make(&made, capacity_of(cls))) {
      hak_magazine_drop(&made); /* another thread was first */
      return ready;
    }
  }
}

uint32_t hak_depot_put(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count) {
  hak_depot_t *depot = &hak_depots[cls];
  if (count == 0 || !make_ready(depot, cls)) {
    return count;
  }
  hak_lock(&depot->lock);
  uint32_t had = count_of(depot), room = capacity_of(cls) - had, put = count < room ? count : room;
  memcpy(hak_magazine_slots(&depot->magazine) + 1 + had, blocks + count - put, put * sizeof(void *));
  set_count_locked(depot, had + put);
  hak_unlock(&depot->lock);
  return count - put;
}

uint32_t hak_depot_take(uint32_t cls, hak_free_block_t **blocks, uint32_t want) {
  hak_depot_t *depot = &hak_depots[cls];
  if (count_of(depot) == 0) { /* mostly, and worth no lock */
    return 0;
  }
  hak_lock(&depot->lock);
  uint32_t has = count_of(depot), count = want < has ? want : has;
  if (count > 0) {
    set_count_locked(depot, has - count);
    memcpy(blocks, hak_magazine_slots(&depot->magazine) + 1 + has - count, count * sizeof(void *));
    atomic_store_explicit(&depot->taken, true, memory_order_relaxed);
  }
  hak_unlock(&depot->lock);
  return count;
}

static void flush_class(uint32_t cls) {
  hak_free_block_t *batch[BATCH];
  for (uint32_t count; (count = hak_depot_take(cls, batch, BATCH)) > 0;) {
    hak_slab_return(batch, count, cls, "free");
  }
  atomic_store_explicit(&hak_depots[cls].taken, false, memory_order_relaxed);
}

void hak_depot_flush(bool idle_only) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    if (!idle_only || !hak_depot_is_taken(cls)) {
      flush_class(cls);
    }
  }
}

void hak_depot_begin(void) {
  hak_depot_flush(true);
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    atomic_store_explicit(&hak_depots[cls].taken, false, memory_order_relaxed);
  }
}

void hak_depot_verify(const char *function) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    hak_depot_t *depot = &hak_depots[cls];
    if (!hak_lock_try(&depot->lock)) {
      continue;
    }
    const hak_free_block_t *damaged = NULL;
    hak_free_block_t **slots = hak_magazine_slots(&depot->magazine);
    for (uint32_t i = 1; i <= count_of(depot) && !damaged; i++) { /* marked meanwhile, should it be there twice */
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
      hak_slab_damaged(function, damaged);
    }
  }
}

bool hak_depot_holds(const void *block, uint32_t cls) {
  hak_depot_t *depot = &hak_depots[cls];
  bool held = false;
  hak_lock(&depot->lock);
  for (uint32_t i = 1; i <= count_of(depot) && !held; i++) {
    held = hak_magazine_slots(&depot->magazine)[i] == block;
  }
  hak_unlock(&depot->lock);
  return held;
}

size_t hak_depot_count(uint32_t cls) {
  return count_of(&hak_depots[cls]);
}
