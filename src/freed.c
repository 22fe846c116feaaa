/* Empty slabs of the hardened profile: their check, and whether they keep their class. slab.c stands above. */
#include "freed.h"

_Atomic bool hak_freed_release;

static const char *find_damaged(const hak_slab_t *slab) {
  uint32_t blocks = atomic_load_explicit(&slab->bump, memory_order_relaxed), size = slab->block_bytes;
  for (const char *block = slab->base, *end = block + (size_t)blocks * size; block < end; block += size) {
    if (HAK_UNLIKELY(!hak_seal_is_whole(block, size) || !hak_freed_is_clean(block, size, true))) {
      return block;
    }
  }
  return NULL;
}

bool hak_freed_keeps_class(const hak_slab_t *slab, hak_lock_t *lock, bool swept) {
  bool keeps = hak_hard.regions && !atomic_load_explicit(&hak_freed_release, memory_order_relaxed);
  const char *damaged = slab->unsealed || (keeps && swept) ? NULL : find_damaged(slab);
  if (HAK_UNLIKELY(damaged != NULL)) {
    hak_unlock(lock); /* a program that handles the signal may allocate */
    bool whole = hak_seal_is_whole(damaged, slab->block_bytes);
    hak_misuse("free", whole ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, damaged);
  }
  return keeps;
}
