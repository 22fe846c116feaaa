#include "large.h"

#include "arena.h"
#include "os.h"
#include "pagemap.h"

#include <string.h>

/* Blocks in ranges that pages were moved to, each a mapping of its own; with more, contents are copied. */
enum { MOVED_MAX = 4096 };

static _Atomic size_t live_blocks, live_bytes, moved_blocks;

static void count(size_t bytes, bool up) {
  atomic_fetch_add_explicit(&live_blocks, up ? 1 : (size_t)-1, memory_order_relaxed);
  atomic_fetch_add_explicit(&live_bytes, up ? bytes : -bytes, memory_order_relaxed);
}

/* How a block of so many bytes lies. */
typedef struct extent {
  size_t chunks, tail; /* whole chunks, slices behind them; without chunks: slices of one chunk */
} extent_t;

static extent_t extent_for(size_t bytes, size_t align) {
  size_t slices = hak_slices_for(bytes);
  if (slices <= HAK_CHUNK_SLICES && align <= HAK_CHUNK_BYTES) {
    HAK_ASSERT(slices > HAK_CHUNK_SLICES / 2); /* so no second one begins in the chunk */
    return (extent_t){0, slices};
  }
  return slices < HAK_CHUNK_SLICES ? (extent_t){1, 0}
                                   : (extent_t){slices / HAK_CHUNK_SLICES, slices % HAK_CHUNK_SLICES};
}

static extent_t extent_of(const hak_chunk_t *chunk) {
  extent_t extent = extent_for(chunk->huge_bytes, chunk->state == HAK_CHUNK_HUGE ? 2 * HAK_CHUNK_BYTES : 1);
  if (chunk->state == HAK_CHUNK_HUGE) {
    extent.chunks = chunk->chunks;
  }
  return extent;
}

static void *take(extent_t extent, size_t align, bool *zeroed) {
  if (extent.chunks > 0) {
    return hak_arena_take_chunks(extent.chunks, extent.tail, align, zeroed);
  }
  return hak_arena_take(extent.tail, align > HAK_SLICE_BYTES ? align >> HAK_SLICE_SHIFT : 1, zeroed);
}

static char *tail_of(void *block, size_t chunks) {
  return (char *)block + (chunks << HAK_CHUNK_SHIFT);
}

static void give(void *block, extent_t extent) {
  if (extent.tail > 0) {
    hak_arena_give(tail_of(block, extent.chunks), extent.tail);
  }
  if (extent.chunks > 0) {
    hak_arena_give_chunks(block);
  }
}

void *hak_huge_alloc(size_t bytes, size_t align, bool *zeroed) {
  if (bytes > PTRDIFF_MAX - HAK_CHUNK_BYTES || align > PTRDIFF_MAX) {
    return NULL;
  }
  bytes = hak_round_up(bytes ? bytes : 1, hak_os_page_bytes()); /* which may be several slices */
  void *block = take(extent_for(bytes, align), align, zeroed);
  if (block) {
    hak_chunk_t *chunk = hak_chunk_at(block);
    chunk->huge_bytes = bytes;
    count(chunk->huge_bytes, true);
    hak_set_class(block, 1, HAK_CLASS_HUGE);
  }
  return block;
}

void hak_huge_free(void *block, const char *function) {
  hak_chunk_t *chunk = hak_chunk_at(block);
  if (!hak_clear_class(block, HAK_CLASS_HUGE)) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  count(chunk->huge_bytes, false);
  atomic_fetch_sub_explicit(&moved_blocks, chunk->moved, memory_order_relaxed);
  chunk->moved = false;
  give(block, extent_of(chunk));
}

size_t hak_huge_usable(const void *block) {
  return hak_chunk_at(block)->huge_bytes;
}

static bool resize(void *block, hak_chunk_t *chunk, extent_t has, extent_t wants) {
  char *tail = tail_of(block, has.chunks);
  bool fewer = wants.chunks < has.chunks;
  if (wants.chunks > has.chunks || (fewer && wants.chunks == 0)) {
    return false;
  }
  if (!fewer && wants.tail > has.tail) {
    return has.tail > 0 && hak_arena_extend(tail, has.tail, wants.tail - has.tail);
  }
  HAK_ASSERT(!fewer || chunk->state == HAK_CHUNK_HUGE);
  if (fewer && !hak_arena_shrink_chunks(block, wants.chunks, wants.tail)) {
    return false;
  }
  size_t keep = fewer ? 0 : wants.tail; /* of the old tail */
  if (has.tail > keep) {
    hak_arena_give(tail + (keep << HAK_SLICE_SHIFT), has.tail - keep);
  }
  return true;
}

bool hak_huge_resize(void *block, size_t bytes) {
  if (bytes > PTRDIFF_MAX - HAK_CHUNK_BYTES) {
    return false;
  }
  hak_chunk_t *chunk = hak_chunk_at(block);
  bytes = hak_round_up(bytes, hak_os_page_bytes());
  extent_t wants = extent_for(bytes, chunk->state == HAK_CHUNK_HUGE ? 2 * HAK_CHUNK_BYTES : 1);
  if (!resize(block, chunk, extent_of(chunk), wants)) {
    return false;
  }
  count(chunk->huge_bytes, false);
  chunk->huge_bytes = bytes;
  count(chunk->huge_bytes, true);
  return true;
}

/* After a move that failed half-way: pages that moved read as zeros in `from`, and `to` began as zeros. */
static void copy_what_is_left(char *to, const char *from, size_t bytes) {
  size_t page = hak_os_page_bytes();
  for (size_t at = 0; at < bytes; at += page) {
    if (from[at] != 0 || memcmp(from + at, from + at + 1, page - 1) != 0) {
      memcpy(to + at, from + at, page);
    }
  }
}

/* Its addresses stay out of use. */
static void lose(void *block) {
  hak_clear_class(block, HAK_CLASS_HUGE);
  count(hak_huge_usable(block), false);
}

/* False: the fresh block has lost its memory. */
static bool move_contents(char *fresh, char *block, size_t bytes, bool zeroed) {
  bool many = atomic_load_explicit(&moved_blocks, memory_order_relaxed) >= MOVED_MAX;
  if (many || !(zeroed || hak_os_discard(fresh, bytes))) {
    memcpy(fresh, block, bytes);
    return true;
  }
  atomic_fetch_add_explicit(&moved_blocks, 1, memory_order_relaxed);
  hak_chunk_at(fresh)->moved = true;
  hak_os_move_result_t result = hak_os_move(block, fresh, bytes);
  if (result == HAK_OS_NOT_MOVED) {
    copy_what_is_left(fresh, block, bytes);
  }
  return result != HAK_OS_TARGET_LOST;
}

void *hak_huge_move(void *block, size_t bytes) {
  bool zeroed;
  size_t old_bytes = hak_huge_usable(block);
  HAK_ASSERT(old_bytes < bytes);
  void *fresh = hak_huge_alloc(bytes, HAK_BLOCK_MIN, &zeroed);
  if (!fresh) {
    return NULL;
  }
  if (!move_contents(fresh, block, old_bytes, zeroed)) {
    lose(fresh);
    fresh = hak_huge_alloc(bytes, HAK_BLOCK_MIN, &zeroed);
    if (!fresh) {
      return NULL;
    }
    memcpy(fresh, block, old_bytes);
  }
  hak_huge_free(block, "realloc");
  return fresh;
}

hak_huge_totals_t hak_huge_totals(void) {
  return (hak_huge_totals_t){atomic_load_explicit(&live_blocks, memory_order_relaxed),
                             atomic_load_explicit(&live_bytes, memory_order_relaxed)};
}
