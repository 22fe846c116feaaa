/* Pages without access. slab.c and framed.c stand above, arena.c below. */
#include "gap.h"

#include "pages/pages.h"
#include "seal.h"

enum {
  MAPPINGS_DEFAULT = 65530, /* the kernel's, where the limit cannot be read */
  OWN_PART = 4,             /* of the limit */
  SPLIT = 2,                /* mappings that a range without access adds */
};

static bool has_advice;
static size_t limit;
static _Atomic size_t mappings;

static size_t read_limit(void) {
  char text[32];
  const char *at = text;
  size_t read = hak_direct_read("/proc/sys/vm/max_map_count", text, sizeof text);
  uint64_t number = read > 0 ? hak_text_number(&at, 10) : 0;
  return number > 0 ? number : MAPPINGS_DEFAULT;
}

void hak_gap_start(void) {
  size_t page = hak_os_page_bytes();
  char *tried = hak_os_map(NULL, page);
  limit = read_limit() / OWN_PART;
  if (tried) {
    has_advice = hak_os_guard(tried, page);
    hak_os_unmap_unused(tried, page);
  }
}

bool hak_gap_is_free(void) {
  return has_advice;
}

bool hak_gap_count(size_t more) {
  size_t before = atomic_fetch_add_explicit(&mappings, more, memory_order_relaxed);
  if (before + more > limit) {
    hak_gap_uncount(more);
    return false;
  }
  return true;
}

void hak_gap_uncount(size_t less) {
  atomic_fetch_sub_explicit(&mappings, less, memory_order_relaxed);
}

bool hak_gap_protect(void *at, size_t bytes) {
  bool counted = !hak_os_is_strict() && hak_gap_count(SPLIT), closed = counted && hak_os_close(at, bytes);
  if (counted && !closed) {
    hak_gap_uncount(SPLIT);
  }
  return closed;
}

bool hak_gap_unprotect(void *at, size_t bytes) {
  bool opened = !hak_os_is_strict() && hak_os_make_writable(at, bytes);
  hak_gap_uncount(opened ? SPLIT : 0);
  return opened;
}

bool hak_gap_close(void *at, size_t bytes) {
  if (has_advice) {
    return !hak_os_is_strict() && hak_os_guard(at, bytes);
  }
  bool closed = hak_gap_protect(at, bytes);
  if (closed) {
    hak_os_discard(at, bytes);
  }
  return closed;
}

bool hak_gap_open(void *at, size_t bytes) {
  return has_advice ? !hak_os_is_strict() && hak_os_unguard(at, bytes) : hak_gap_unprotect(at, bytes);
}

char *hak_gap_take_slab(size_t slices, bool *zeroed) {
  if (hak_chance(hak_hard.guards) != 0) {
    return NULL;
  }
  char *base = hak_arena_take(slices + 1, HAK_SLAB_SLICES, zeroed);
  if (base && !hak_gap_close(base + (slices << HAK_SLICE_SHIFT), HAK_SLICE_BYTES)) {
    hak_arena_give(base, slices + 1);
    return NULL;
  }
  return base;
}

bool hak_gap_open_behind(char *base, size_t slices) {
  return hak_gap_open(base + (slices << HAK_SLICE_SHIFT), HAK_SLICE_BYTES);
}
