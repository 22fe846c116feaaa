/* Free blocks of the hardened profile, just before their slab goes. slab.c stands above. */
#include "freed.h"

void hak_freed_expect(const char *base, size_t block_bytes, uint32_t blocks) {
  for (uint32_t i = 0; i < blocks; i++) {
    const char *block = base + i * block_bytes;
    bool whole = hak_seal_is_whole(block, block_bytes);
    if (HAK_UNLIKELY(!whole || !hak_freed_is_clean(block, block_bytes, true))) {
      hak_misuse("free", whole ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, block);
    }
  }
}
