/* Empty slabs of the hardened profile: their check, and whether they keep their class. slab.c stands above. */
#include "freed.h"

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
