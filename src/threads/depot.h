/* Duty: free blocks on their way from a thread that frees to one that allocates, without passing the slabs or the
 * arena. Data: some shards for each class, each a magazine under its own lock. A class starts with one shard. When
 * threads have met at every open shard of a class, all classes get another one. The blocks' memory is not touched.
 * Layers below: large, slab, magazine. */
#pragma once

#include "system/system.h"

typedef struct hak_depot {
  hak_lock_t lock;
  _Atomic uint32_t count; /* changed under the lock */
  _Atomic bool taken;     /* a thread took blocks in this decay time; valid in the first shard of a class */
  hak_magazine_t magazine;
} __attribute__((aligned(HAK_CACHE_LINE))) hak_depot_t;

enum { HAK_DEPOTS = HAK_DEPOT_SHARDS * HAK_CLASS_COUNT };
extern hak_depot_t hak_depots[HAK_DEPOTS]; /* the first shards of all classes, then the second ones, ... */
/* Number of shards of each class that may be in use. The number is constant while the caller holds the lock of the
 * first shard of class 0, which serves no class. */
uint32_t hak_depots_open(void);

/* Put as many blocks as there is room for, the last ones first. Returns the number that stays with the caller. */
uint32_t hak_depot_put(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count);
/* Take up to `want` blocks from one shard, the most recently put ones first. Returns their number. */
uint32_t hak_depot_take(uint32_t cls, hak_free_block_t **blocks, uint32_t want);

/* Whether a thread took blocks of the class in this decay time. */
HAK_INLINE bool hak_depot_is_taken(uint32_t cls) {
  return atomic_load_explicit(&hak_depots[cls].taken, memory_order_relaxed);
}
/* Return the blocks of all classes to the slabs and the arena. `idle_only`: only of classes from which no thread took
 * blocks in this decay time. */
void hak_depot_flush(bool idle_only);
/* Begin another decay time. */
void hak_depot_begin(void);

/* Look for blocks that the program wrote to after their free; for the end of the process. Skips depots that another
 * thread has locked. */
void hak_depot_verify(const char *function);

/* Whether the block is in the depot. */
bool hak_depot_holds(const void *block, uint32_t cls);

/* Whether a block was ever put into the depot. */
bool hak_depot_is_used(void);
/* Number of the class's blocks in the depot. */
size_t hak_depot_count(uint32_t cls);
