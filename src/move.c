/* Whole chunks of a huge block become more: free ones behind it are taken, or the kernel makes the mapping longer, and
 * moves it where it must. */
#include "arena_internal.h"
#include "os.h"
#include "sparse.h"

bool hak_arena_extend_chunks(void *base, size_t more) {
  hak_chunk_t *huge = hak_chunk_at(base);
  char *end = (char *)base + (huge->chunks << HAK_CHUNK_SHIFT);
  if (!hak_release_promise(more * HAK_CHUNK_SLICES)) {
    return false;
  }
  bool stocked = hak_arena_lock_stocked();
  if (!stocked) {
    hak_lock(&hak_arena.lock);
  }
  hak_chunk_t *behind = hak_chunk_at(end);
  bool ok = stocked && behind && behind->state == HAK_CHUNK_FREE && behind->chunks >= more;
  if (ok) {
    hak_extent_t rest = hak_extent_cut_locked(behind);
    rest.base += more << HAK_CHUNK_SHIFT;
    rest.chunks -= more;
    hak_extent_put_locked(rest);
    hak_set_chunk(end, more, huge);
    huge->chunks += more;
    hak_arena_count_used_locked(more * HAK_CHUNK_SLICES, true);
  } else {
    hak_release_end_promise_locked(more * HAK_CHUNK_SLICES);
  }
  hak_unlock(&hak_arena.lock);
  return ok;
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

/* The page map forgets the old place first: another mapping may lie there the next moment. */
static char *move(char *base, size_t has, size_t wants) {
  hak_chunk_t *huge = hak_chunk_at(base);
  hak_set_chunk(base, has >> HAK_CHUNK_SHIFT, &hak_chunk_gone);
  char *found = hak_os_lengthen(base, has, wants + HAK_CHUNK_BYTES);
  if (!found) {
    hak_set_chunk(base, has >> HAK_CHUNK_SHIFT, huge);
    return NULL;
  }
  found = align(found, has, wants);
  /* There is no way back: so memory for the page map is waited for. That chunk was some. */
  for (int tries = 0; !hak_pagemap_cover(found, wants); tries++) {
    HAK_VERIFY(tries < 1000);
    hak_os_yield();
  }
  return found;
}

void *hak_arena_move_chunks(void *base, size_t chunks) {
  hak_chunk_t *huge = hak_chunk_at(base);
  size_t has = huge->chunks, more = (chunks - has) * HAK_CHUNK_SLICES;
  hak_lock(&hak_arena.lock);
  char *wish = hak_arena.wish;
  hak_unlock(&hak_arena.lock);
  size_t below = (chunks + 1) << HAK_CHUNK_SHIFT; /* where the kernel most likely moves it */
  if (!hak_pagemap_cover(wish - below, below) || !hak_release_promise(more)) {
    return NULL;
  }
  char *fresh = move(base, has << HAK_CHUNK_SHIFT, chunks << HAK_CHUNK_SHIFT);
  if (!fresh) {
    hak_release_end_promise(more);
    return NULL;
  }
  hak_lock(&hak_arena.lock);
  huge->base = fresh;
  huge->chunks = chunks;
  hak_set_chunk(fresh, chunks, huge);
  if (fresh != base) {
    hak_place_remember_locked(base, has << HAK_CHUNK_SHIFT);
  }
  hak_arena.mapped_slices += more;
  hak_arena.mapped_ever += more;
  hak_arena_count_used_locked(more, true);
  hak_unlock(&hak_arena.lock);
  return fresh;
}
