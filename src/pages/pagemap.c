/* Maps any address to its class and its chunk. Every free reads it; the arena writes it. */
#include "pagemap.h"

#include <string.h>

#include "system/system.h"

_Atomic uintptr_t hak_leaves[HAK_LEAVES] HAK_LEAVES_DATA;
/* A bit for each leaf that exists or is about to. It is set before any thread can find the leaf, so a fork finds no
 * leaf without its bit. */
static _Atomic uint64_t leaf_bits[HAK_LEAVES / 64];
uint32_t hak_first_slab;

static uintptr_t first_slice(size_t index) {
  return (uintptr_t)index << (HAK_LEAF_SHIFT - HAK_SLICE_SHIFT);
}

static hak_leaf_t *leaf_at(size_t index) {
  uintptr_t biased = index < HAK_LEAVES ? atomic_load_explicit(&hak_leaves[index], memory_order_acquire) : 0;
  return biased ? (hak_leaf_t *)(biased + first_slice(index)) : NULL; /* NOLINT(performance-no-int-to-ptr) */
}

static size_t leaf_index(const void *address) {
  return (uintptr_t)address >> HAK_LEAF_SHIFT;
}

static size_t chunk_index(const void *address) {
  return (uintptr_t)address >> HAK_CHUNK_SHIFT & (HAK_LEAF_CHUNKS - 1);
}

hak_chunk_t hak_chunk_gone = {.state = HAK_CHUNK_GONE};

static bool is_none(const hak_chunk_t *chunk) {
  return !chunk || chunk == &hak_chunk_gone;
}

static hak_chunk_t *entry(_Atomic(hak_chunk_t *) *at) {
  return atomic_load_explicit(at, memory_order_relaxed);
}

hak_chunk_t *hak_pagemap_chunk(const void *address) {
  hak_leaf_t *leaf = leaf_at(leaf_index(address));
  _Atomic(hak_chunk_t *) *at = leaf ? &leaf->chunks[chunk_index(address)] : NULL;
  hak_chunk_t *chunk = leaf ? entry(at) : NULL;
  if (HAK_UNLIKELY(leaf && is_none(chunk))) {
    hak_chunk_t *span =
        atomic_load_explicit(&leaf->spans[chunk_index(address) / HAK_SPAN_CHUNKS], memory_order_acquire);
    chunk = entry(at); /* the span may just have been split */
    chunk = !chunk || (is_none(chunk) && !is_none(span)) ? span : chunk;
  }
  return chunk;
}

/* A reader of statistics may meet a slab that another thread is releasing. Its descriptor is then that of another slab,
 * or has another one in the pointer's place; all of these stay mapped. */
uint32_t hak_pagemap_class_in_mixed(const void *address) {
  const hak_slab_t *slab = hak_pagemap_slab(address);
  const hak_mixed_t *mixed = __atomic_load_n(&slab->mixed, __ATOMIC_ACQUIRE);
  uint32_t offset = hak_slab_offset(address);
  if (!mixed || offset % HAK_BLOCK_MIN != 0 || (uintptr_t)mixed->base != (uintptr_t)address - offset) {
    return HAK_CLASS_NONE;
  }
  return atomic_load_explicit(&mixed->cls[offset >> HAK_BLOCK_SHIFT], memory_order_relaxed);
}

/* Set chunks of one span, which is split if they are only a part of it. */
static void set_in_span(hak_leaf_t *leaf, size_t first, size_t count, hak_chunk_t *chunk) {
  _Atomic(hak_chunk_t *) *all = &leaf->chunks[first / HAK_SPAN_CHUNKS * HAK_SPAN_CHUNKS], *at = &leaf->chunks[first];
  _Atomic(hak_chunk_t *) *span = &leaf->spans[first / HAK_SPAN_CHUNKS];
  if (count == HAK_SPAN_CHUNKS && is_none(entry(&at[0])) && is_none(entry(&at[count - 1]))) {
    atomic_store_explicit(span, chunk, memory_order_release);
    return;
  }
  atomic_store_explicit(&leaf->entered[first / HAK_SPAN_CHUNKS], true, memory_order_relaxed);
  hak_chunk_t *whole = entry(span);
  for (size_t i = 0; i < HAK_SPAN_CHUNKS && !is_none(whole); i++) {
    atomic_store_explicit(&all[i], whole, memory_order_relaxed);
  }
  atomic_store_explicit(span, whole ? &hak_chunk_gone : NULL, memory_order_release);
  for (size_t i = 0; i < count; i++) {
    atomic_store_explicit(&at[i], chunk, memory_order_relaxed);
  }
}

void hak_pagemap_set_chunk(const char *base, size_t chunks, hak_chunk_t *chunk) {
  while (chunks > 0) {
    size_t first = chunk_index(base), rest = HAK_SPAN_CHUNKS - first % HAK_SPAN_CHUNKS;
    size_t count = chunks < rest ? chunks : rest;
    set_in_span(leaf_at(leaf_index(base)), first, count, chunk);
    base += count << HAK_CHUNK_SHIFT;
    chunks -= count;
  }
}

/* state of a piece of the tables */
enum { READ_ONLY, CLAIMED, WRITABLE };
#define WHOLE_FROM ((size_t)1 << 30)

static size_t rest_bytes(void) {
  return hak_round_up(sizeof(hak_leaf_t) - HAK_LEAF_TABLE_BYTES, hak_os_page_bytes());
}

/* The next leaf from this index on; HAK_LEAVES: there is none. */
static size_t next_leaf(size_t index) {
  for (; index < HAK_LEAVES; index = (index | 63) + 1) {
    uint64_t bits = atomic_load_explicit(&leaf_bits[index / 64], memory_order_relaxed) >> index % 64;
    for (; bits; bits &= bits - 1) {
      size_t found = index + (size_t)__builtin_ctzll(bits);
      if (leaf_at(found)) {
        return found;
      }
    }
  }
  return HAK_LEAVES;
}

static _Atomic(hak_leaf_t *) spare;

/* `for_bytes`: the size of the coming mapping. The tables are small compared with a very large mapping, so all of them
 * are then made writable at once, although writable memory counts under a limit. So are the tables of the first leaf:
 * in a small program, the system calls would cost more than the memory in them. */
static hak_leaf_t *map_leaf(size_t for_bytes) {
  hak_leaf_t *leaf = for_bytes >= WHOLE_FROM || next_leaf(0) == HAK_LEAVES
                         ? hak_os_map(NULL, HAK_LEAF_TABLE_BYTES + rest_bytes())
                         : NULL;
  if (leaf) {
    memset((void *)leaf->pieces, WRITABLE, sizeof leaf->pieces);
    return leaf;
  }
  leaf = hak_os_map_readonly(HAK_LEAF_TABLE_BYTES + rest_bytes());
  if (leaf && !hak_os_make_writable(leaf->pieces, rest_bytes())) {
    hak_os_unmap_unused(leaf, HAK_LEAF_TABLE_BYTES + rest_bytes());
    leaf = NULL;
  }
  return leaf;
}

bool hak_pagemap_stock(void) {
  hak_leaf_t *none = NULL, *leaf = atomic_load(&spare) ? NULL : map_leaf(0);
  if (leaf && !atomic_compare_exchange_strong(&spare, &none, leaf)) {
    hak_os_unmap_unused(leaf, HAK_LEAF_TABLE_BYTES + rest_bytes());
  }
  return atomic_load(&spare) != NULL;
}

static bool make_leaf(size_t index, size_t for_bytes) {
  hak_leaf_t *leaf = map_leaf(for_bytes);
  leaf = leaf ? leaf : atomic_exchange(&spare, NULL);
  if (!leaf) {
    return false;
  }
  uintptr_t none = 0;
  atomic_fetch_or_explicit(&leaf_bits[index / 64], 1ULL << index % 64, memory_order_relaxed);
  if (!atomic_compare_exchange_strong_explicit(&hak_leaves[index], &none, (uintptr_t)leaf - first_slice(index),
                                               memory_order_acq_rel, memory_order_acquire)) {
    hak_os_unmap_unused(leaf, HAK_LEAF_TABLE_BYTES + rest_bytes()); /* another thread was first */
  }
  return true;
}
_Static_assert(offsetof(hak_leaf_t, pieces) == HAK_LEAF_TABLE_BYTES, "what is not a table begins a page");

static bool claim(_Atomic uint8_t *piece) {
  uint8_t seen = atomic_load_explicit(piece, memory_order_acquire);
  return seen == READ_ONLY &&
         atomic_compare_exchange_strong_explicit(piece, &seen, CLAIMED, memory_order_acquire, memory_order_relaxed);
}

/* Make a run of pieces writable, which the caller has claimed. A page holds `every` pieces; the state of the first one
 * is that of all. */
static bool finish(hak_leaf_t *leaf, size_t first, size_t count, size_t every) {
  bool ok = hak_os_make_writable((char *)leaf + first * HAK_LEAF_PIECE_BYTES, count * HAK_LEAF_PIECE_BYTES);
  for (size_t i = 0; i < count; i += every) {
    atomic_store_explicit(&leaf->pieces[first + i], ok ? WRITABLE : READ_ONLY, memory_order_release);
  }
  atomic_fetch_add_explicit(&leaf->attempts, 1, memory_order_release);
  hak_os_wake(&leaf->attempts);
  return ok;
}

/* Make the pieces with these bytes of the leaf's tables writable. One thread works on a piece, and others wait for
 * it. */
static bool make_writable(hak_leaf_t *leaf, size_t from, size_t bytes) {
  size_t page = hak_os_page_bytes(), every = page > HAK_LEAF_PIECE_BYTES ? page / HAK_LEAF_PIECE_BYTES : 1;
  size_t at = from / HAK_LEAF_PIECE_BYTES / every * every, end = (from + bytes - 1) / HAK_LEAF_PIECE_BYTES + 1;
  while (at < end) {
    uint32_t attempts = atomic_load_explicit(&leaf->attempts, memory_order_acquire);
    size_t count = 0;
    for (; at + count < end && claim(&leaf->pieces[at + count]); count += every) {
    }
    if (count > 0 && !finish(leaf, at, count, every)) {
      return false;
    }
    at += count;
    uint8_t seen = at < end ? atomic_load_explicit(&leaf->pieces[at], memory_order_acquire) : READ_ONLY;
    if (seen == CLAIMED) {
      hak_os_wait(&leaf->attempts, attempts, HAK_OS_WAIT_MS);
      hak_os_wake(&leaf->attempts); /* the next waiting thread: only one was woken */
    }
    at += seen == WRITABLE ? every : 0;
  }
  return true;
}

void hak_pagemap_fork_child(void) {
  for (size_t index = next_leaf(0); index < HAK_LEAVES; index = next_leaf(index + 1)) {
    for (size_t i = 0; i < HAK_LEAF_PIECES; i++) {
      _Atomic uint8_t *piece = &leaf_at(index)->pieces[i];
      if (atomic_load_explicit(piece, memory_order_relaxed) == CLAIMED) {
        atomic_store_explicit(piece, READ_ONLY, memory_order_relaxed);
      }
    }
  }
}

/* The range's entry is about to be read and then written: make its first page fault a write fault. Another thread may
 * have made the leaf, and only some of its pieces writable. */
static bool make_leaf_for(const char *base, size_t bytes) {
  if (!make_leaf(leaf_index(base), bytes)) {
    return false;
  }
  hak_leaf_t *leaf = leaf_at(leaf_index(base));
  uintptr_t *at = (uintptr_t *)&leaf->chunks[chunk_index(base)];
  size_t piece = (size_t)((char *)at - (char *)leaf) / HAK_LEAF_PIECE_BYTES;
  if (atomic_load_explicit(&leaf->pieces[piece], memory_order_acquire) == WRITABLE) {
    __atomic_fetch_or(at, 0, __ATOMIC_RELAXED);
  }
  return true;
}

bool hak_pagemap_cover(const char *base, size_t bytes) {
  while (bytes > 0) {
    size_t index = leaf_index(base), rest = ((index + 1) << HAK_LEAF_SHIFT) - (uintptr_t)base;
    size_t part = bytes < rest ? bytes : rest;
    if (index < HAK_LEAVES) {
      atomic_fetch_or_explicit(&hak_leaves[index], 0, memory_order_relaxed); /* so that the fault is a write fault */
    }
    if (index >= HAK_LEAVES || (!leaf_at(index) && !make_leaf_for(base, part))) {
      return false;
    }
    hak_leaf_t *leaf = leaf_at(index);
    const char *last = base + part - 1;
    size_t first_code = hak_pagemap_slice(base) - first_slice(index),
           codes = hak_pagemap_slice(last) - hak_pagemap_slice(base) + 1;
    size_t chunks = chunk_index(last) - chunk_index(base) + 1;
    if (!make_writable(leaf, first_code, codes) ||
        !make_writable(leaf, offsetof(hak_leaf_t, chunks) + chunk_index(base) * sizeof(void *),
                       chunks * sizeof(void *))) {
      return false;
    }
    base += part;
    bytes -= part;
  }
  return true;
}

static hak_chunk_t *next_in(hak_leaf_t *leaf, size_t from) {
  for (size_t i = from; i < HAK_LEAF_CHUNKS; i++) {
    if (!atomic_load_explicit(&leaf->entered[i / HAK_SPAN_CHUNKS], memory_order_relaxed)) {
      i |= HAK_SPAN_CHUNKS - 1;
      continue;
    }
    hak_chunk_t *chunk = entry(&leaf->chunks[i]);
    if (chunk && chunk->state == HAK_CHUNK_SLICED) {
      return chunk;
    }
  }
  return NULL;
}

hak_chunk_t *hak_pagemap_next_sliced(const hak_chunk_t *after) {
  size_t index = next_leaf(after ? leaf_index(after->base) : 0), from = after ? chunk_index(after->base) + 1 : 0;
  hak_chunk_t *chunk = NULL;
  for (; index < HAK_LEAVES && !(chunk = next_in(leaf_at(index), from)); index = next_leaf(index + 1)) {
    from = 0;
  }
  return chunk;
}
