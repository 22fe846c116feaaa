#include "pagemap.h"

#include "os.h"

_Atomic uintptr_t hak_leaves[HAK_LEAVES];
static _Atomic(hak_leaf_t *) all_leaves;

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

hak_chunk_t *hak_chunk_at(const void *address) {
  hak_leaf_t *leaf = leaf_at(leaf_index(address));
  return leaf ? atomic_load_explicit(&leaf->chunks[chunk_index(address)], memory_order_relaxed) : NULL;
}

void hak_set_chunk(const char *base, size_t chunks, hak_chunk_t *chunk) {
  for (size_t i = 0; i < chunks; i++, base += HAK_CHUNK_BYTES) {
    atomic_store_explicit(&leaf_at(leaf_index(base))->chunks[chunk_index(base)], chunk, memory_order_relaxed);
  }
}

static size_t rest_bytes(void) {
  return hak_round_up(sizeof(hak_leaf_t) - HAK_LEAF_TABLE_BYTES, hak_os_page_bytes());
}

static _Atomic(hak_leaf_t *) spare;

static hak_leaf_t *map_leaf(void) {
  hak_leaf_t *leaf = hak_os_map_readonly(HAK_LEAF_TABLE_BYTES + rest_bytes());
  if (leaf && !hak_os_make_writable(&leaf->next, rest_bytes())) {
    hak_os_unmap(leaf, HAK_LEAF_TABLE_BYTES + rest_bytes());
    leaf = NULL;
  }
  return leaf;
}

bool hak_pagemap_stock(void) {
  hak_leaf_t *none = NULL, *leaf = atomic_load(&spare) ? NULL : map_leaf();
  if (leaf && !atomic_compare_exchange_strong(&spare, &none, leaf)) {
    hak_os_unmap(leaf, HAK_LEAF_TABLE_BYTES + rest_bytes());
  }
  return atomic_load(&spare) != NULL;
}

static bool make_leaf(size_t index) {
  hak_leaf_t *leaf = map_leaf();
  leaf = leaf ? leaf : atomic_exchange(&spare, NULL);
  if (!leaf) {
    return false;
  }
  uintptr_t none = 0;
  if (!atomic_compare_exchange_strong_explicit(&hak_leaves[index], &none, (uintptr_t)leaf - first_slice(index),
                                               memory_order_acq_rel, memory_order_acquire)) {
    hak_os_unmap(leaf, HAK_LEAF_TABLE_BYTES + rest_bytes());
    return true; /* another thread was first */
  }
  leaf->next = atomic_load_explicit(&all_leaves, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&all_leaves, &leaf->next, leaf, memory_order_release,
                                                memory_order_relaxed)) {
  }
  return true;
}
_Static_assert(offsetof(hak_leaf_t, next) == HAK_LEAF_TABLE_BYTES, "what is not a table begins a page");

enum { READ_ONLY, CLAIMED, WRITABLE };

/* One thread makes a piece writable, others wait for it. A page may be several pieces: then the first stands for all.
 */
static bool make_writable(hak_leaf_t *leaf, size_t piece) {
  size_t page = hak_os_page_bytes(), bytes = page > HAK_LEAF_PIECE_BYTES ? page : HAK_LEAF_PIECE_BYTES;
  piece -= piece % (bytes / HAK_LEAF_PIECE_BYTES);
  _Atomic uint8_t *state = &leaf->pieces[piece];
  for (;;) {
    uint8_t seen = READ_ONLY;
    if (atomic_compare_exchange_strong_explicit(state, &seen, CLAIMED, memory_order_acquire, memory_order_acquire)) {
      bool ok = hak_os_make_writable((char *)leaf + piece * HAK_LEAF_PIECE_BYTES, bytes);
      atomic_store_explicit(state, ok ? WRITABLE : READ_ONLY, memory_order_release);
      return ok;
    }
    if (seen == WRITABLE) {
      return true;
    }
    hak_os_yield();
  }
}

void hak_pagemap_fork_child(void) {
  for (hak_leaf_t *leaf = atomic_load_explicit(&all_leaves, memory_order_relaxed); leaf; leaf = leaf->next) {
    for (size_t i = 0; i < HAK_LEAF_PIECES; i++) {
      if (atomic_load_explicit(&leaf->pieces[i], memory_order_relaxed) == CLAIMED) {
        atomic_store_explicit(&leaf->pieces[i], READ_ONLY, memory_order_relaxed);
      }
    }
  }
}

static bool cover_chunk(const char *base) {
  size_t index = leaf_index(base);
  if (index >= HAK_LEAVES || (!leaf_at(index) && !make_leaf(index))) {
    return false;
  }
  hak_leaf_t *leaf = leaf_at(index);
  size_t code = hak_slice_of(base) - first_slice(index);
  size_t chunk = (size_t)((char *)&leaf->chunks[chunk_index(base)] - (char *)leaf);
  return make_writable(leaf, code / HAK_LEAF_PIECE_BYTES) && make_writable(leaf, chunk / HAK_LEAF_PIECE_BYTES);
}

bool hak_pagemap_cover(const char *base, size_t bytes) {
  for (size_t at = 0; at < bytes; at += HAK_CHUNK_BYTES) {
    if (!cover_chunk(base + at)) {
      return false;
    }
  }
  return cover_chunk(base + bytes - 1);
}

static hak_chunk_t *next_in(hak_leaf_t *leaf, size_t from) {
  for (size_t i = from; i < HAK_LEAF_CHUNKS; i++) {
    hak_chunk_t *chunk = atomic_load_explicit(&leaf->chunks[i], memory_order_relaxed);
    if (chunk && chunk->state == HAK_CHUNK_SLICED) {
      return chunk;
    }
  }
  return NULL;
}

hak_chunk_t *hak_pagemap_next_sliced(const hak_chunk_t *after) {
  hak_leaf_t *leaf = after ? leaf_at(leaf_index(after->base)) : atomic_load_explicit(&all_leaves, memory_order_acquire);
  size_t from = after ? chunk_index(after->base) + 1 : 0;
  hak_chunk_t *chunk = NULL;
  for (; leaf && !(chunk = next_in(leaf, from)); leaf = leaf->next) {
    from = 0;
  }
  return chunk;
}
