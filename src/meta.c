/* Memory for the allocator's own objects, apart from all blocks. Its users recycle it and never give it back. */
#include "meta.h"

#include "geometry.h"
#include "os.h"

/* Size of a piece: the first ones are small, for small programs. The last value is the least size that is tried. */
enum {
  FIRST_PIECE_BYTES = 32 << 10,
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

static void *cut(size_t bytes) {
  void *p = NULL;
  hak_lock(&hak_meta_lock);
  if (meta.left >= bytes) {
    p = meta.at;
    meta.at += bytes;
    meta.left -= bytes;
    meta.used += bytes;
  }
  hak_unlock(&hak_meta_lock);
  return p;
}

/* The remainder of the previous piece is lost. */
static bool map_piece(size_t bytes) {
  bytes += HAK_CACHE_LINE; /* room for the head */
  size_t usual = hak_meta_bytes() >= PIECE_BYTES ? PIECE_BYTES : FIRST_PIECE_BYTES;
  size_t piece = hak_round_up(bytes > usual ? bytes : usual, hak_os_page_bytes());
  char *fresh = hak_os_map(NULL, piece);
  if (!fresh) {
    piece = hak_round_up(bytes > PIECE_LEAST_BYTES ? bytes : PIECE_LEAST_BYTES, hak_os_page_bytes());
    fresh = hak_os_map(NULL, piece);
  }
  if (fresh) {
    hak_os_decline_huge(fresh, piece);
    hak_lock(&hak_meta_lock);
    *(hak_meta_piece_t *)(void *)fresh = (hak_meta_piece_t){hak_meta_pieces, piece};
    hak_meta_pieces = (hak_meta_piece_t *)(void *)fresh;
    meta.at = fresh + HAK_CACHE_LINE;
    meta.left = piece - HAK_CACHE_LINE;
    hak_unlock(&hak_meta_lock);
  }
  return fresh != NULL;
}

void *hak_meta_alloc(size_t bytes) {
  bytes = hak_round_up(bytes, HAK_CACHE_LINE);
  void *p;
  while (!(p = cut(bytes)) && map_piece(bytes)) {
  }
  return p;
}
