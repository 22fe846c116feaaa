/* The key, the check and the report of free blocks, and single ones for callers without a thread cache. */
#include "freed.h"

#include "slab.h"

void hak_freed_start(void) {
  if (atomic_load_explicit(&hak_key, memory_order_relaxed) == 0) { /* several threads may do this at once */
    uintptr_t none = 0, random = (uintptr_t)hak_os_random() | (uintptr_t)1 << 63;
    atomic_compare_exchange_strong_explicit(&hak_key, &none, random, memory_order_relaxed, memory_order_relaxed);
  }
}

HAK_COLD void hak_freed_damaged(const char *function, const hak_free_block_t *block) {
  hak_misuse_met(function, hak_is_marked_taken(block) ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_CORRUPTED, block);
}

void *hak_freed_take_one(uint32_t kind) {
  hak_free_block_t *block = NULL;
  while (!block) {
    hak_slab_t *slab = hak_slab_acquire(kind);
    if (!slab) {
      return NULL;
    }
    hak_slab_take(slab, &block, 1, false);
    hak_slab_drop(slab);
    if (block && !hak_is_marked_free(block)) {
      hak_freed_damaged("malloc", block);
      block = NULL;
    }
  }
  return hak_mark_taken(block);
}

/* Empty slabs of the hardened profile: their check, and whether they keep their class. slab.c stands above. */

_Atomic int hak_freed_releasing;

static HAK_COLD void report(const char *block, uint32_t size) {
  hak_misuse_met("free", hak_seal_is_whole(block, size) ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, block);
}

/* The first damaged one of the blocks that lie in bytes [from, to) of the slab, all of which are free. */
static const char *find_damaged(const hak_slab_t *slab, size_t from, size_t to) {
  uint32_t bump = atomic_load_explicit(&slab->bump, memory_order_relaxed), size = slab->block_bytes;
  for (size_t i = from / size; i < bump && i * size < to; i++) {
    const char *block = slab->base + i * size;
    if (HAK_UNLIKELY(!hak_seal_is_whole(block, size) || !hak_freed_is_clean(block, size, true))) {
      return block;
    }
  }
  return NULL;
}

void hak_freed_expect(const hak_slab_t *slab, size_t from, size_t to) {
  const char *damaged = slab->unsealed ? NULL : find_damaged(slab, from, to);
  if (HAK_UNLIKELY(damaged != NULL)) {
    report(damaged, slab->block_bytes);
  }
}

bool hak_freed_keeps_class(const hak_slab_t *slab, hak_lock_t *lock, bool swept) {
  bool keeps = hak_hard.regions && atomic_load_explicit(&hak_freed_releasing, memory_order_relaxed) == 0;
  bool skip = slab->unsealed || (keeps && swept) || hak_misuse_is_reported();
  const char *damaged = skip ? NULL : find_damaged(slab, 0, SIZE_MAX);
  if (HAK_UNLIKELY(damaged != NULL)) {
    hak_unlock(lock); /* the report stops the program; its signal handler may allocate, which may need the lock */
    report(damaged, slab->block_bytes);
  }
  return keeps;
}
