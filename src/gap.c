/* Slices without access behind some slabs. slab.c stands above, arena.c below. */
#include "gap.h"

#include "arena.h"
#include "os.h"
#include "seal.h"

char *hak_gap_take(size_t slices, bool *zeroed) {
  if (hak_os_random() % hak_hard.guards != 0) {
    return NULL;
  }
  char *base = hak_arena_take(slices + 1, HAK_SLAB_SLICES, zeroed);
  if (base && !hak_os_close(base + (slices << HAK_SLICE_SHIFT), HAK_SLICE_BYTES)) {
    hak_arena_give(base, slices + 1);
    return NULL;
  }
  return base;
}

bool hak_gap_open(char *base, size_t slices) {
  return hak_os_make_writable(base + (slices << HAK_SLICE_SHIFT), HAK_SLICE_BYTES);
}
