/* Copies and zeros contents without touching pages of zeros; adds whole chunks to a huge block, whose mapping the
 * kernel lengthens, and moves if necessary. */
#include "purge.h"

#include <errno.h>
#include <string.h>

/* Libc knows the processor. The compiler's own function would ask it at each start, and some virtual machines take
 * 10 us for each of a dozen answers. */
#ifndef __x86_64__
#define HAS_WIDE false
#elif __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#define HAS_WIDE x86_cpu_active(x86_cpu_AVX2)
#else
#define HAS_WIDE (__builtin_cpu_supports("avx2") != 0)
#endif

enum { VECTORS = 8, STEP = 4 * VECTORS * sizeof(hak_wide_vector_t) };

/* Whole steps. Within a step the vectors are only joined, since a test of a vector takes as long as eight loads. */
HAK_WIDE static bool is_zero_wide(const char *from, size_t bytes) {
  for (const char *end = from + bytes; from < end;) {
    hak_wide_vector_t any = {0}, more = any;
    for (const char *stop = from + STEP; from < stop; from += VECTORS * sizeof any) {
      const hak_wide_vector_t *part = (const void *)from;
      any |= (part[0] | part[1]) | (part[2] | part[3]);
      more |= (part[4] | part[5]) | (part[6] | part[7]);
    }
    any |= more;
    if ((any[0] | any[1]) | (any[2] | any[3])) {
      return false;
    }
  }
  return true;
}

bool hak_move_is_zero(const void *at, size_t bytes) {
  const char *from = at;
  size_t before = -(uintptr_t)at & (sizeof(hak_wide_vector_t) - 1);
  if (bytes < before + STEP || !HAS_WIDE) {
    return hak_is_zero(at, bytes);
  }
  size_t whole = (bytes - before) / STEP * STEP, behind = before + whole;
  return hak_is_zero(from, before) && is_zero_wide(from + before, whole) && hak_is_zero(from + behind, bytes - behind);
}

void hak_move_copy(void *to, const void *from, size_t bytes, bool zeroed) {
  size_t page = hak_os_page_bytes(), done = 0;
  for (size_t part, at = 0; at < bytes; at += part) {
    part = bytes - at < page ? bytes - at : page;
    if (hak_move_is_zero((const char *)from + at, part)) {
      memcpy((char *)to + done, (const char *)from + done, at - done);
      done = at + part;
      if (!zeroed && !hak_move_is_zero((char *)to + at, part)) {
        memset((char *)to + at, 0, part);
      }
    }
  }
  memcpy((char *)to + done, (const char *)from + done, bytes - done);
}

void hak_move_zero(void *at, size_t bytes) {
  size_t page = hak_os_page_bytes(), whole = bytes / page * page;
  int saved = errno;
  if (bytes >= HAK_ZERO_DROPPED_FROM && hak_os_discard(at, whole)) {
    at = (char *)at + whole;
    bytes -= whole;
  }
  errno = saved;
  for (size_t part, done = 0; done < bytes; done += part) {
    part = bytes - done < page ? bytes - done : page;
    if (!hak_move_is_zero((char *)at + done, part)) {
      memset((char *)at + done, 0, part);
    }
  }
}

static bool lengthen(hak_chunk_t *huge, size_t chunks) {
  size_t has = huge->chunks << HAK_CHUNK_SHIFT, wants = chunks << HAK_CHUNK_SHIFT;
  return hak_pagemap_cover(huge->base + has, wants - has) && hak_os_lengthen(huge->base, has, wants, false);
}

/* The mapping has one chunk too many, so it contains an aligned range at any address. Align the block within it.
 * Kernels since 6.7 choose aligned addresses themselves. */
static char *align(char *found, size_t has, size_t wants) {
  size_t skip = -(uintptr_t)found & (HAK_CHUNK_BYTES - 1);
  if (skip > 0) {
    for (size_t page = hak_os_page_bytes(), at = has; at > 0; at -= page) { /* backwards, since the ranges overlap */
      hak_move_copy(found + skip + at - page, found + at - page, page, false);
    }
    hak_os_unmap(found, skip);
  }
  hak_os_unmap(found + skip + wants, HAK_CHUNK_BYTES - skip);
  return found + skip;
}

/* A move cannot be undone, so the page map must cover the target in advance. This covers the place that the kernel
 * would choose now. If a limit allows no mapping of that size, it covers one place anywhere. */
static bool cover_likely(size_t wants) {
  char *gap = hak_os_find_gap(wants + HAK_CHUNK_BYTES, HAK_CHUNK_BYTES);
  return gap ? hak_pagemap_cover(gap - HAK_CHUNK_BYTES, wants + 3 * HAK_CHUNK_BYTES) : hak_pagemap_stock();
}

static char *move(hak_chunk_t *huge, size_t chunks) {
  size_t has = huge->chunks << HAK_CHUNK_SHIFT, wants = chunks << HAK_CHUNK_SHIFT;
  if (!cover_likely(wants)) {
    return NULL;
  }
  hak_pagemap_set_chunk(huge->base, huge->chunks, &hak_chunk_gone); /* before others can map something there */
  char *found = hak_os_lengthen(huge->base, has, wants + HAK_CHUNK_BYTES, true);
  if (!found) {
    hak_pagemap_set_chunk(huge->base, huge->chunks, huge);
    return NULL;
  }
  found = align(found, has, wants);
  for (int tries = 0; !hak_pagemap_cover(found, wants); tries++) { /* another thread mapped something there first */
    HAK_VERIFY(tries < 1000);
    hak_os_yield();
  }
  return found;
}

/* Join free chunks directly behind a small huge block to it. The caller has reserved them within the limit. */
static bool join_behind(hak_chunk_t *huge, size_t more) {
  if (huge->chunks + more > HAK_PATCHED_CHUNKS || !hak_chunk_lock_stocked()) {
    return false;
  }
  char *end = huge->base + (huge->chunks << HAK_CHUNK_SHIFT);
  hak_chunk_t *behind = hak_pagemap_chunk(end);
  bool free = behind && behind->state == HAK_CHUNK_FREE && behind->chunks >= more;
  if (free) {
    hak_extent_t part = hak_extent_take_locked(behind, 0, more);
    hak_retain_fetch_locked(part.dirty ? 0 : more * HAK_CHUNK_SLICES, more * HAK_CHUNK_SLICES);
    huge->chunks += more;
    hak_pagemap_set_chunk(end, more, huge);
    hak_retain_count_used_locked(more * HAK_CHUNK_SLICES, true);
  }
  hak_unlock(&hak_arena.lock);
  return free;
}

void *hak_move_grow(void *base, size_t chunks, bool may_move) {
  hak_chunk_t *huge = hak_pagemap_chunk(base);
  size_t more = (chunks - huge->chunks) * HAK_CHUNK_SLICES;
  if (!hak_grow_reserve(more)) {
    return NULL;
  }
  if (!may_move && join_behind(huge, chunks - huge->chunks)) {
    return base;
  }
  char *place = may_move ? move(huge, chunks) : lengthen(huge, chunks) ? base : NULL;
  if (!place) {
    hak_grow_unreserve(more);
    return NULL;
  }
  hak_lock(&hak_arena.lock);
  if (place != base) {
    hak_mapping_remember_locked(base, huge->chunks << HAK_CHUNK_SHIFT);
  }
  hak_mapping_count_locked(more);
  hak_retain_fetch_locked(more, 0);
  hak_retain_count_used_locked(more, true);
  huge->base = place;
  huge->chunks = chunks;
  hak_pagemap_set_chunk(place, chunks, huge);
  bool due = hak_retain_surplus_locked() > 0;
  hak_unlock(&hak_arena.lock);
  if (due) {
    hak_purge_after_free(more);
  }
  return place;
}
