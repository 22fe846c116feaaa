/* Large blocks of the hardened profile: framed runs up to 256 KiB, and mappings of their own above. hardened.c calls
 * this; framed.c and mapped.c stand below. */
#include "hardened.h"

#include "fast.h"
#include "foreign.h"
#include "framed.h"
#include "large.h"
#include "mapped.h"
#include "page_attributes.h"
#include "quarantine.h"
#include "slab.h"

#include <errno.h>
#include <string.h>

enum {
  FRAMED_MAX = 256 << 10, /* larger blocks are cheaper to map than to zero */
  HEADROOM_PART = 8,      /* of a block that grew, as addresses: a loop that grows one further seldom copies it */
};

/* Blocks of types without pointers share no run with others. */
static bool wants_frame(size_t bytes) {
  return bytes <= FRAMED_MAX && !(hak_heap->quarantine && hak_heap->quarantine->data);
}

static void *take(size_t bytes, size_t align, size_t headroom, bool *zeroed) {
  void *block = wants_frame(bytes) ? hak_framed_alloc(bytes, align, headroom, zeroed) : NULL;
  if (!block && hak_hard.delayed_regions > 0) {
    *zeroed = true;
    block = hak_mapped_alloc(bytes, align, headroom, HAK_MAPPED_GUARDED);
  }
  block = block ? block : hak_framed_alloc(bytes, align, headroom, zeroed); /* too many mappings */
  if (!block && hak_hard.delayed_regions > 0) {
    *zeroed = true;
    block = hak_mapped_alloc(bytes, align, headroom, HAK_MAPPED_FILLED);
  }
  return block;
}

void *hak_hardened_alloc_large(size_t bytes, size_t align, bool *zeroed) {
  void *block = take(bytes, align, 0, zeroed);
  if (block) {
    return block;
  }
  if (bytes <= HAK_CACHED_MAX && align <= HAK_CHUNK_BYTES) { /* the system has no memory: what the arena has left */
    return hak_run_take(hak_run_class_of(bytes > HAK_SMALL_MAX ? bytes : HAK_SMALL_MAX + 1), align, zeroed);
  }
  return hak_huge_alloc(bytes, align, zeroed);
}

static bool owns(const void *block) {
  return hak_framed_owns(block) || hak_mapped_owns(block);
}

static size_t usable(const void *block, const char *function) {
  return hak_framed_owns(block) ? hak_framed_usable(block, function) : hak_mapped_usable(block, function);
}

static bool resize(void *block, size_t bytes, bool shrinks) {
  return hak_framed_owns(block) ? hak_framed_resize(block, bytes, shrinks) : hak_mapped_resize(block, bytes, shrinks);
}

/* Make pages of a run ordinary that the program protected. False: the block is lost, so that no other thread gets it.
 */
static bool restore(void *block) {
  const char *end = NULL;
  bool framed = hak_page_attributes_any() && hak_framed_block(block, &end);
  return !framed || hak_page_attributes_restore_range(block, end);
}

static void free_named(void *block, const char *function) {
  if (!restore(block)) {
    return;
  }
  if (hak_framed_owns(block)) {
    hak_framed_free(block, function);
  } else {
    hak_mapped_free(block, function);
  }
}

bool hak_hardened_free_large(void *block, size_t named, const char *function) {
  bool is = owns(block);
  if (is && named != HAK_UNSEALED && usable(block, function) != named) {
    hak_misuse(function, HAK_MISUSE_WRONG_SIZE, block);
  }
  if (is) {
    int saved = errno;
    free_named(block, function);
    errno = saved;
  }
  return is;
}

bool hak_hardened_owns_large(const void *block) {
  return hak_hard.on && owns(block);
}

static void free_large(void *block) {
  free_named(block, "free");
}

static size_t usable_large(const void *block) {
  return usable(block, "malloc_usable_size");
}

static void *realloc_large(void *block, size_t bytes) {
  int saved = errno;
  if (!restore(block)) {
    return hak_no_memory();
  }
  size_t asked = usable(block, "realloc");
  bool zeroed;
  void *fresh = resize(block, bytes, false) ? block : NULL;
  if (!fresh) {
    fresh = asked < bytes && bytes <= PTRDIFF_MAX ? take(bytes, HAK_BLOCK_MIN, bytes / HEADROOM_PART, &zeroed) : NULL;
    fresh = fresh ? fresh : bytes <= PTRDIFF_MAX ? hak_fast_alloc(bytes) : hak_no_memory();
  }
  if (!fresh && resize(block, bytes, true)) { /* no memory, but a shrunk block may stay */
    fresh = block;
  }
  if (fresh && fresh != block) {
    memcpy(fresh, block, asked < bytes ? asked : bytes);
    free_named(block, "realloc");
  }
  errno = fresh ? saved : ENOMEM;
  return fresh;
}

const hak_owner_t hak_hardened_owner = {
    .owns = owns, .free = free_large, .realloc = realloc_large, .usable = usable_large};

/* Only a request that the waiting runs could serve ends their delay. */
static bool release_framed(size_t bytes) {
  size_t waiting = 0;
  for (uint32_t cls = HAK_RUN_FIRST; cls < HAK_CLASS_COUNT; cls++) {
    waiting += hak_framed_waiting(cls) * hak_class_sizes[cls];
  }
  return bytes <= waiting && hak_framed_give_up(true);
}

bool hak_hardened_release(size_t bytes) {
  size_t swept = atomic_load_explicit(&hak_slabs_listed[HAK_SLABS_SWEPT], memory_order_relaxed);
  bool any = hak_mapped_forget(bytes);
  any |= release_framed(bytes);
  any |= hak_hard.regions && hak_slices_for(bytes) <= swept * HAK_SLAB_SLICES && hak_slab_release_empty();
  return any;
}
