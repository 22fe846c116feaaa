/* The memory limit. A thread reserves slices before it takes them, so that concurrent threads cannot exceed the limit
 * together. */
#include "arena_internal.h"
#include "options.h"

bool hak_limit_reserve(size_t slices) {
  size_t limit = hak_option_slices(HAK_OPTION_MEMORY_LIMIT);
  if (HAK_LIKELY(hak_option(HAK_OPTION_MEMORY_LIMIT) == 0)) {
    return true;
  }
  for (bool purged = false;; purged = true) {
    hak_lock(&hak_arena.lock);
    size_t used = hak_arena.used_slices + hak_arena.reserved_slices;
    bool fits = used + hak_arena.dirty_slices + slices <= limit;
    hak_arena.reserved_slices += fits ? slices : 0;
    hak_unlock(&hak_arena.lock);
    if (fits || used + slices > limit || purged) {
      return fits;
    }
    hak_arena_purge(limit - slices - used);
  }
}

/* The count may be lower than `slices`: the limit was off at the time, or the process has forked since. */
void hak_limit_unreserve_locked(size_t slices) {
  hak_arena.reserved_slices -= slices < hak_arena.reserved_slices ? slices : hak_arena.reserved_slices;
}

void hak_limit_unreserve(size_t slices) {
  hak_lock(&hak_arena.lock);
  hak_limit_unreserve_locked(slices);
  hak_unlock(&hak_arena.lock);
}
