/* Memory for the allocator's own objects, apart from all blocks. Its users recycle it and never give it back. */
#include "meta.h"

#include "os.h"

/* Size of a piece. The first one is a part of the library and suffices for small programs. The last value is the least
 * size that is tried. */
enum {
  PAGE_BYTES = 1 << HAK_PAGE_SHIFT,
  FIRST_PIECE_BYTES = 64 << 10,
  PIECE_BYTES = 128 << 10,
  PIECE_LEAST_BYTES = 16 << 10
}; /* pages of a piece become resident only when used */

hak_lock_t hak_meta_lock = HAK_LOCK_INIT;
hak_meta_piece_t *hak_meta_pieces;
static struct {
  char *at;
  size_t left, used;
} meta;

size_t hak_meta_bytes(void) {
  return hak_lock_read(&hak_meta_lock, &meta.used);
}

size_t hak_meta_mapped_bytes(void) {
  size_t used = hak_meta_bytes();
  return used > FIRST_PIECE_BYTES ? used - FIRST_PIECE_BYTES : 0;
}

/* Its head lies in the page where the table of leaves ends, which every program with a heap touches. */
static _Alignas(HAK_CACHE_LINE) char first_piece[FIRST_PIECE_BYTES] HAK_META_DATA;

static void add_locked(char *fresh, size_t piece) {
  *(hak_meta_piece_t *)(void *)fresh = (hak_meta_piece_t){hak_meta_pieces, piece};
  hak_meta_pieces = (hak_meta_piece_t *)(void *)fresh;
  meta.at = fresh + HAK_CACHE_LINE;
  meta.left = piece - HAK_CACHE_LINE;
}

static void *cut(size_t bytes, size_t unit) {
  void *p = NULL;
  hak_lock(&hak_meta_lock);
  if (!hak_meta_pieces) {
    add_locked(first_piece, sizeof first_piece);
  }
  size_t gap = -((uintptr_t)meta.at - HAK_CACHE_LINE) & (unit - 1);
  if (meta.left >= gap + bytes) {
    p = meta.at + gap;
    meta.at += gap + bytes;
    meta.left -= gap + bytes;
    meta.used += bytes;
  }
  hak_unlock(&hak_meta_lock);
  return p;
}

/* The remainder of the previous piece is lost. */
static bool map_piece(size_t bytes) {
  bytes += HAK_CACHE_LINE; /* room for the head */
  size_t piece = hak_round_up(bytes > PIECE_BYTES ? bytes : PIECE_BYTES, hak_os_page_bytes());
  char *fresh = hak_os_map(NULL, piece);
  if (!fresh) {
    piece = hak_round_up(bytes > PIECE_LEAST_BYTES ? bytes : PIECE_LEAST_BYTES, hak_os_page_bytes());
    fresh = hak_os_map(NULL, piece);
  }
  if (fresh) {
    hak_os_decline_huge(fresh, piece);
    hak_lock(&hak_meta_lock);
    add_locked(fresh, piece);
    hak_unlock(&hak_meta_lock);
  }
  return fresh != NULL;
}

/* The first cache line of a piece is its head; objects begin one line behind the start of a unit. */
static void *alloc(size_t bytes, size_t unit) {
  bytes = hak_round_up(bytes, HAK_CACHE_LINE);
  void *p;
  while (!(p = cut(bytes, unit)) && map_piece(bytes + unit)) {
  }
  return p;
}

void *hak_meta_alloc(size_t bytes) {
  return alloc(bytes, HAK_CACHE_LINE);
}

void *hak_meta_alloc_in_page(size_t bytes) {
  return alloc(bytes, PAGE_BYTES);
}

void *hak_meta_take(void **dropped, size_t bytes) {
  hak_lock(&hak_meta_lock);
  void *object = *dropped;
  *dropped = object ? *(void **)object : NULL;
  hak_unlock(&hak_meta_lock);
  return object ? object : hak_meta_alloc(bytes);
}

void hak_meta_drop(void **dropped, void *object) {
  hak_lock(&hak_meta_lock);
  *(void **)object = *dropped;
  *dropped = object;
  hak_unlock(&hak_meta_lock);
}
