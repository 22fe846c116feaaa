/* The whole chunks of a huge block become more: free ones behind it are taken, or the kernel makes the mapping longer,
 * and moves it where it must. */
#include "arena_internal.h"
#include "os.h"
#include "sparse.h"

/* `fresh`: those that came to it were mapped for it. */
static void become_locked(hak_chunk_t *huge, char *base, size_t chunks, bool fresh) {
  size_t more = (chunks - huge->chunks) * HAK_CHUNK_SLICES;
  hak_arena.mapped_slices += fresh ? more : 0;
  hak_arena.mapped_ever += fresh ? more : 0;
  hak_arena_count_used_locked(more, true);
  huge->base = base;
  huge->chunks = chunks;
  hak_set_chunk(base, chunks, huge);
}

static bool take_behind(hak_chunk_t *huge, size_t chunks) {
  size_t more = chunks - huge->chunks;
  if (!hak_arena_lock_stocked()) {
    return false;
  }
  hak_chunk_t *behind = hak_chunk_at(huge->base + (huge->chunks << HAK_CHUNK_SHIFT));
  bool ok = behind && behind->state == HAK_CHUNK_FREE && behind->chunks >= more;
  if (ok) {
    hak_extent_t rest = hak_extent_cut_locked(behind);
    rest.base += more << HAK_CHUNK_SHIFT;
    rest.chunks -= more;
    hak_extent_put_locked(rest);
    become_locked(huge, huge->base, chunks, false);
  }
  hak_unlock(&hak_arena.lock);
  return ok;
}

static bool lengthen(hak_chunk_t *huge, size_t chunks) {
  size_t has = huge->chunks << HAK_CHUNK_SHIFT, wants = chunks << HAK_CHUNK_SHIFT;
  if (!hak_pagemap_cover(huge->base + has, wants - has) || !hak_os_lengthen(huge->base, has, wants, false)) {
    return false;
  }
  hak_lock(&hak_arena.lock);
  become_locked(huge, huge->base, chunks, true);
  hak_unlock(&hak_arena.lock);
  return true;
}

/* Of a mapping that came with a chunk too much, so that it holds what is asked for at a multiple of a chunk wherever it
 * lies. Kernels since 6.7 choose such a multiple themselves. */
static char *align(char *found, size_t has, size_t wants) {
  size_t skip = -(uintptr_t)found & (HAK_CHUNK_BYTES - 1);
  if (skip > 0) {
    hak_sparse_copy(found + skip, found, has, false);
    hak_os_unmap(found, skip);
  }
  hak_os_unmap(found + skip + wants, HAK_CHUNK_BYTES - skip);
  return found + skip;
}

/* There is no way back from a move, so the page map is made ready before: for the place that the kernel would choose
 * now; or, where a limit allows no mapping of that size besides the block, for one place anywhere. */
static bool cover_likely(size_t wants) {
  char *gap = hak_os_find_gap(wants + HAK_CHUNK_BYTES, HAK_CHUNK_BYTES);
  return gap ? hak_pagemap_cover(gap - HAK_CHUNK_BYTES, wants + 3 * HAK_CHUNK_BYTES) : hak_pagemap_stock();
}

static bool move(hak_chunk_t *huge, size_t chunks) {
  size_t has = huge->chunks << HAK_CHUNK_SHIFT, wants = chunks << HAK_CHUNK_SHIFT;
  if (!cover_likely(wants)) {
    return false;
  }
  hak_set_chunk(huge->base, huge->chunks, &hak_chunk_gone); /* before others can map something there */
  char *found = hak_os_lengthen(huge->base, has, wants + HAK_CHUNK_BYTES, true);
  char *base = found ? align(found, has, wants) : NULL;
  if (!base) {
    hak_set_chunk(huge->base, huge->chunks, huge);
    return false;
  }
  for (int tries = 0; !hak_pagemap_cover(base, wants); tries++) { /* others mapped something at that place first */
    HAK_VERIFY(tries < 1000);
    hak_os_yield();
  }
  hak_lock(&hak_arena.lock);
  hak_place_remember_locked(huge->base, has);
  become_locked(huge, base, chunks, true);
  hak_unlock(&hak_arena.lock);
  return true;
}

void *hak_arena_grow_chunks(void *base, size_t chunks, bool may_move) {
  hak_chunk_t *huge = hak_chunk_at(base);
  size_t more = (chunks - huge->chunks) * HAK_CHUNK_SLICES;
  if (!hak_release_promise(more)) {
    return NULL;
  }
  if (may_move ? !move(huge, chunks) : !take_behind(huge, chunks) && !lengthen(huge, chunks)) {
    hak_release_end_promise(more);
    return NULL;
  }
  return huge->base;
}
