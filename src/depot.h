/* Duty: free blocks on their way from a thread that frees to one that allocates, past the slabs.
 * Data: per class some lanes, each a magazine under a lock of its own: one, and another each time that threads met at
 * all there were. Nothing of a block is touched. Layers below: slab, magazine. */
#pragma once

#include "magazine.h"

typedef struct hak_depot {
  hak_lock_t lock;
  _Atomic uint32_t count; /* changed under the lock */
  _Atomic bool taken;     /* since the last decay; the first lane's says it of all */
  _Atomic uint32_t room;  /* blocks that a lane of the class may hold: a hint; the first lane's says it of all */
  hak_magazine_t magazine;
} __attribute__((aligned(HAK_CACHE_LINE))) hak_depot_t;

enum { HAK_DEPOT_LANES = 8, HAK_DEPOTS = HAK_DEPOT_LANES * HAK_RUN_FIRST };
extern hak_depot_t hak_depots[HAK_DEPOTS]; /* the first lanes of all classes, then the second ones, ... */
/* How many of them may be in use. While the lock of the first, which is no class's, is held it stays so. */
uint32_t hak_depots_open(void);

/* A thread fetched so many blocks from a slab, because none was here: there is room for as many more. */
void hak_depot_miss(uint32_t cls, uint32_t blocks);
/* Put blocks, the last ones first, as far as there is room. Returns how many stay with the caller; the room shrinks by
 * as many, for nobody takes the blocks. */
uint32_t hak_depot_put(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count);
/* Up to `want` blocks, those that came last; of one lane. Returns how many: 0 where there are none. */
uint32_t hak_depot_take(uint32_t cls, hak_free_block_t **blocks, uint32_t want);

/* Whether a thread took some of it in this decay time. */
HAK_INLINE bool hak_depot_is_taken(uint32_t cls) {
  return atomic_load_explicit(&hak_depots[cls].taken, memory_order_relaxed);
}
/* Return to the slabs what is of classes that nobody took from in this decay time, or all. */
void hak_depot_flush(bool idle_only);
/* Another decay time begins; the same for the one before. */
void hak_depot_begin(void);

/* Look for a block that was written to since it was freed; for the end of the process. Passes what another thread
 * holds. */
void hak_depot_verify(const char *function);

/* Whether the block lies there. */
bool hak_depot_holds(const void *block, uint32_t cls);

/* Blocks of a class that lie there. */
size_t hak_depot_count(uint32_t cls);
