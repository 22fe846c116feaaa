/* Large blocks that realloc shrinks, and lengthens again. */
#include "arena_internal.h"
#include "os.h"

/* Make the descriptor that the block needs for its first whole chunk. */
static hak_chunk_t *first_whole_locked(const hak_chunk_t *sliced) {
  hak_chunk_t *huge = hak_chunk_new_locked(sliced->base, HAK_CHUNK_HUGE);
  huge->mate = hak_chunk_new_locked(sliced->base, HAK_CHUNK_SPARE);
  huge->huge_bytes = sliced->huge_bytes;
  huge->chunks = 0;
  return huge;
}

bool hak_arena_unite_tail(void *base, size_t chunks, size_t tail) {
  size_t more = HAK_CHUNK_SLICES - tail;
  char *end = (char *)base + (chunks << HAK_CHUNK_SHIFT);
  if (!hak_limit_reserve(more)) {
    return false;
  }
  if (!hak_arena_lock_stocked()) {
    hak_limit_unreserve(more);
    return false;
  }
  hak_chunk_t *sliced = hak_chunk_at(end);
  bool free = (sliced->free | hak_mask_of(0, tail)) == HAK_MASK_ALL;
  if (free) {
    hak_arena_unlist_locked(sliced);
    hak_retain_fetch_locked(hak_mask_count(sliced->free & ~sliced->dirty), more);
    hak_chunk_t *huge = chunks > 0 ? hak_chunk_at(base) : first_whole_locked(sliced);
    huge->chunks++;
    hak_set_chunk(end, 1, huge);
    hak_chunk_spare_locked(sliced);
    hak_arena_count_used_locked(more, true);
  } else {
    hak_limit_unreserve_locked(more);
  }
  hak_unlock(&hak_arena.lock);
  return free;
}

void hak_arena_drop_rest(void *block, size_t bytes, size_t usable) {
  size_t from = hak_round_up(bytes, hak_os_page_bytes());
  if (from < usable && !atomic_load_explicit(&hak_arena.locked, memory_order_relaxed)) {
    hak_os_discard((char *)block + from, usable - from);
  }
}
