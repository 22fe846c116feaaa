/* Blocks above 1 MiB: allocate, free, resize. The slow paths stand above; arena.c stands below. */
#include "blocks.h"

/* Each moved block is a mapping of its own, and a process may have some 65,000 mappings. Beyond this many, realloc
 * copies instead, except blocks so large that there cannot be many. */
enum { MOVED_MAX = 4096, MOVED_ALWAYS = 64 << 20 };

_Atomic size_t hak_huge_live, hak_huge_live_bytes;
static _Atomic size_t moved_blocks;

static void count(size_t bytes, bool up) {
  atomic_fetch_add_explicit(&hak_huge_live, up ? 1 : (size_t)-1, memory_order_relaxed);
  atomic_fetch_add_explicit(&hak_huge_live_bytes, up ? bytes : -bytes, memory_order_relaxed);
}

/* Layout of a block of a given size. */
typedef struct extent {
  size_t chunks, tail; /* whole chunks, and slices behind them; without chunks: slices of one chunk */
  bool grows;
} extent_t;

static extent_t extent_for(size_t bytes, size_t align) {
  size_t slices = hak_slices_for(bytes);
  if (slices <= HAK_CHUNK_SLICES && align <= HAK_CHUNK_BYTES) {
    HAK_ASSERT(slices > HAK_CHUNK_SLICES / 2); /* so that no second one begins in the chunk */
    return (extent_t){0, slices, false};
  }
  return slices < HAK_CHUNK_SLICES ? (extent_t){1, 0, false}
                                   : (extent_t){slices / HAK_CHUNK_SLICES, slices % HAK_CHUNK_SLICES, false};
}

/* Layout of a block that will grow. It has no tail, which would block the growth. */
static extent_t extent_to_grow(size_t bytes) {
  return (extent_t){(bytes + HAK_CHUNK_BYTES - 1) >> HAK_CHUNK_SHIFT, 0, true};
}

static extent_t extent_of(const hak_chunk_t *chunk) {
  size_t chunks = chunk->state == HAK_CHUNK_HUGE ? chunk->chunks : 0, whole = chunks * HAK_CHUNK_SLICES;
  size_t slices = hak_slices_for(chunk->huge_bytes);
  return (extent_t){chunks, slices > whole ? slices - whole : 0, false};
}

static void *take(extent_t extent, size_t align, bool *zeroed) {
  if (extent.chunks > 0) {
    return hak_huge_chunks_take(extent.chunks, extent.tail, align, extent.grows, zeroed);
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
    hak_huge_chunks_give(block);
  }
}

static void *alloc(extent_t extent, size_t bytes, size_t align, bool *zeroed) {
  void *block = take(extent, align, zeroed);
  if (block) {
    hak_pagemap_chunk(block)->huge_bytes = bytes;
    count(bytes, true);
    hak_pagemap_set_class(block, 1, HAK_CLASS_HUGE);
  }
  return block;
}

/* Round up to whole pages, which may be larger than a slice. Returns 0 if the size is too large. */
static size_t whole_pages(size_t bytes) {
  return bytes > PTRDIFF_MAX - HAK_CHUNK_BYTES ? 0 : hak_round_up(bytes ? bytes : 1, hak_os_page_bytes());
}

void *hak_huge_alloc(size_t bytes, size_t align, bool *zeroed) {
  bytes = whole_pages(bytes);
  return bytes > 0 && align <= PTRDIFF_MAX ? alloc(extent_for(bytes, align), bytes, align, zeroed) : NULL;
}

static void forget(void *block, const char *function) {
  hak_chunk_t *chunk = hak_pagemap_chunk(block);
  if (!hak_pagemap_clear_class(block, HAK_CLASS_HUGE)) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  count(chunk->huge_bytes, false);
}

void hak_huge_free(void *block, const char *function) {
  hak_chunk_t *chunk = hak_pagemap_chunk(block);
  forget(block, function);
  atomic_fetch_sub_explicit(&moved_blocks, chunk->moved, memory_order_relaxed);
  chunk->moved = false;
  give(block, extent_of(chunk));
  hak_purge_tick(hak_os_now_ms()); /* so that windows end even in a program that uses only huge blocks */
}

size_t hak_huge_usable(const void *block) {
  return hak_pagemap_chunk(block)->huge_bytes;
}

static bool starts_chunk(const void *block) {
  return ((uintptr_t)block & (HAK_CHUNK_BYTES - 1)) == 0;
}

/* Shrink the block in place; `wants` is at most `has` in both fields. */
static bool shrink(void *block, extent_t has, extent_t wants) {
  bool fewer = wants.chunks < has.chunks, moved = hak_pagemap_chunk(block)->moved;
  if (fewer && !hak_huge_chunks_shrink(block, wants.chunks, wants.tail)) {
    return false;
  }
  if (fewer && wants.chunks == 0) {
    atomic_fetch_sub_explicit(&moved_blocks, moved, memory_order_relaxed);
  }
  size_t keep = fewer ? 0 : wants.tail; /* slices of the old tail to keep */
  if (has.tail > keep) {
    hak_arena_give(tail_of(block, has.chunks) + (keep << HAK_SLICE_SHIFT), has.tail - keep);
  }
  return true;
}

static bool resize(void *block, size_t old_bytes, size_t bytes) {
  extent_t has = extent_of(hak_pagemap_chunk(block));
  extent_t wants = extent_for(bytes, bytes > HAK_CACHED_MAX ? 1 : 2 * HAK_CHUNK_BYTES);
  if (bytes == old_bytes) { /* the size ends in the same page: the block keeps its spare room to grow */
    return true;
  }
  if (bytes > old_bytes) {
    bool beyond = has.tail > 0 && wants.chunks > has.chunks && starts_chunk(block);
    if (beyond && hak_huge_chunks_unite_tail(block, has.chunks, has.tail)) {
      has = (extent_t){has.chunks + 1, 0, true};
    }
    if (has.chunks > 0 && has.tail == 0) {
      size_t chunks = extent_to_grow(bytes).chunks;
      return chunks <= has.chunks || hak_move_grow(block, chunks, false);
    }
    if (wants.chunks > has.chunks) {
      return false;
    }
    if (wants.tail > has.tail) {
      return has.tail > 0 && hak_arena_extend(tail_of(block, has.chunks), has.tail, wants.tail - has.tail);
    }
  }
  return shrink(block, has, wants);
}

bool hak_huge_resize(void *block, size_t bytes) {
  size_t old_bytes = hak_huge_usable(block);
  bytes = whole_pages(bytes);
  if (bytes == 0 || !resize(block, old_bytes, bytes)) {
    return false;
  }
  hak_pagemap_chunk(block)->huge_bytes = bytes;
  count(old_bytes, false);
  count(bytes, true);
  return true;
}

bool hak_huge_to_run(void *block, uint32_t cls) {
  size_t old_bytes = hak_huge_usable(block), bytes = hak_class_sizes[cls];
  extent_t wants = {0, bytes >> HAK_SLICE_SHIFT, false};
  if (bytes > old_bytes || !shrink(block, extent_of(hak_pagemap_chunk(block)), wants)) {
    return false;
  }
  count(old_bytes, false);
  hak_arena_turn_run(block, HAK_CLASS_HUGE, cls);
  return true;
}

bool hak_huge_from_run(void *block, uint32_t cls, size_t bytes) {
  size_t has = hak_class_sizes[cls] >> HAK_SLICE_SHIFT, wants = hak_slices_for(bytes = whole_pages(bytes));
  bool all = bytes > 0 && wants <= HAK_CHUNK_SLICES && hak_arena_extend(block, has, wants - has);
  if (!all && !(bytes > 0 && starts_chunk(block) && hak_huge_chunks_unite_tail(block, 0, has))) {
    return false;
  }
  hak_pagemap_chunk(block)->huge_bytes = all ? bytes : hak_class_sizes[cls];
  count(hak_huge_usable(block), true);
  hak_arena_turn_run(block, cls, HAK_CLASS_HUGE);
  return all || hak_huge_resize(block, bytes);
}

/* Move whole chunks page by page, and copy the tail. NULL: the block is unchanged. */
static void *move(void *block, size_t bytes) {
  hak_chunk_t *chunk = hak_pagemap_chunk(block);
  extent_t has = extent_of(chunk);
  bool many = atomic_load_explicit(&moved_blocks, memory_order_relaxed) >= MOVED_MAX && bytes < MOVED_ALWAYS;
  if (has.chunks == 0 || (many && !chunk->moved)) {
    return NULL;
  }
  forget(block, "realloc");
  size_t old_bytes = chunk->huge_bytes;
  char *fresh = hak_move_grow(block, extent_to_grow(bytes).chunks, true);
  if (fresh && has.tail > 0) {
    hak_move_copy(tail_of(fresh, has.chunks), tail_of(block, has.chunks), old_bytes - (has.chunks << HAK_CHUNK_SHIFT),
                  true);
    hak_arena_give(tail_of(block, has.chunks), has.tail);
  }
  if (fresh) {
    atomic_fetch_add_explicit(&moved_blocks, !chunk->moved, memory_order_relaxed);
    chunk->moved = true;
    chunk->huge_bytes = bytes;
  }
  count(chunk->huge_bytes, true);
  hak_pagemap_set_class(fresh ? fresh : block, 1, HAK_CLASS_HUGE);
  return fresh;
}

static void *copy(void *block, size_t bytes) {
  bool zeroed;
  void *fresh = alloc(extent_to_grow(bytes), bytes, HAK_BLOCK_MIN, &zeroed);
  if (fresh || (fresh = hak_huge_alloc(bytes, HAK_BLOCK_MIN, &zeroed))) { /* a new block may need less */
    hak_move_copy(fresh, block, hak_huge_usable(block), zeroed);
    hak_huge_free(block, "realloc");
  }
  return fresh;
}

void *hak_huge_move(void *block, size_t bytes) {
  HAK_ASSERT(hak_huge_usable(block) < bytes);
  bytes = whole_pages(bytes);
  void *fresh = bytes > 0 ? move(block, bytes) : NULL;
  return fresh || bytes == 0 ? fresh : copy(block, bytes);
}
