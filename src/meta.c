#include "meta.h"

#include "geometry.h"
#include "lock.h"
#include "os.h"

enum { CHUNK_BYTES = 256 << 10 }; /* pages of it become resident only as they are used */

static struct {
  hak_lock_t lock;
  char *at;
  size_t left, used;
} meta = {.lock = HAK_LOCK_INIT};

void *hak_meta_alloc(size_t bytes) {
  bytes = hak_round_up(bytes, HAK_CACHE_LINE);
  hak_lock(&meta.lock);
  if (meta.left < bytes) {
    size_t chunk = hak_round_up(bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES, hak_os_page_bytes());
    char *fresh = hak_os_map(chunk);
    if (fresh) {
      meta.at = fresh;
      meta.left = chunk;
    }
  }
  void *p = NULL;
  if (meta.left >= bytes) {
    p = meta.at;
    meta.at += bytes;
    meta.left -= bytes;
    meta.used += bytes;
  }
  hak_unlock(&meta.lock);
  return p;
}

size_t hak_meta_bytes(void) {
  hak_lock(&meta.lock);
  size_t used = meta.used;
  hak_unlock(&meta.lock);
  return used;
}

void hak_meta_fork_lock(void) {
  hak_lock(&meta.lock);
}

void hak_meta_fork_unlock(bool in_child) {
  if (in_child) {
    hak_lock_reset(&meta.lock);
  } else {
    hak_unlock(&meta.lock);
  }
}
