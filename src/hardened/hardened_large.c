/* Large blocks of the hardened profile: framed runs up to 256 KiB, and mappings of their own above. hardened.c calls
 * this; framed.c and mapped.c stand below. */
#include "hardened.h"

#include "blocks/large.h"
#include "blocks/slab.h"
#include "framed.h"
#include "malloc/fast.h"
#include "malloc/foreign.h"
#include "malloc/page_attributes.h"
#include "mapped.h"
#include "quarantine.h"

#include <errno.h>
#include <string.h>

enum {
  FRAMED_MAX = 256 << 10, /* larger blocks are cheaper to map than to zero */
  HEADROOM_PART = 8,      /* of a block that grew, as addresses: a loop that grows one further seldom copies it */
};

/* The check at the end of the process reads every large block. It is skipped if another thread has a cache, or while a
 * block changes: a signal handler may end the process, and a child of a fork has no thread to finish the change. */
static _Atomic uint32_t changes_begun, changes_ended;

static void begin_change(void) {
  hak_heap_mine();
  atomic_fetch_add_explicit(&changes_begun, 1, memory_order_seq_cst);
}

static void end_change(void) {
  atomic_fetch_add_explicit(&changes_ended, 1, memory_order_release);
}

bool hak_hardened_changes(uint32_t *begun) {
  uint32_t ended = atomic_load_explicit(&changes_ended, memory_order_acquire);
  *begun = atomic_load_explicit(&changes_begun, memory_order_seq_cst);
  return ended != *begun;
}

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
  begin_change();
  void *block = take(bytes, align, 0, zeroed);
  end_change();
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

static bool restore_mapped(const char *block) {
  uintptr_t page = hak_os_page_bytes(), first = (uintptr_t)block & -page;
  uintptr_t last = hak_round_up((uintptr_t)block + hak_mapped_usable(block, "free"), page);
  return hak_os_make_ordinary((void *)first, last - first, /* NOLINT(performance-no-int-to-ptr) */
                              atomic_load_explicit(&hak_page_attributes_ways, memory_order_relaxed));
}

/* Make pages ordinary that the program protected. False: the block is lost, so that no other thread gets it. */
static bool restore(void *block) {
  const char *end;
  if (HAK_LIKELY(!hak_page_attributes_any()) || hak_os_is_strict()) {
    return true;
  }
  return hak_framed_block(block, &end) ? hak_page_attributes_restore_range(block, end) : restore_mapped(block);
}

static void free_named(void *block, const char *function) {
  if (!restore(block)) {
    return;
  }
  begin_change();
  if (hak_framed_owns(block)) {
    hak_framed_free(block, function);
  } else {
    hak_mapped_free(block, function);
  }
  end_change();
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
  begin_change();
  void *fresh = resize(block, bytes, false) ? block : NULL;
  if (!fresh) {
    fresh = asked < bytes && bytes <= PTRDIFF_MAX ? take(bytes, HAK_BLOCK_MIN, bytes / HEADROOM_PART, &zeroed) : NULL;
    fresh = fresh ? fresh : bytes <= PTRDIFF_MAX ? hak_fast_alloc(bytes) : hak_no_memory();
  }
  if (!fresh && resize(block, bytes, true)) { /* no memory, but a shrunk block may stay */
    fresh = block;
  }
  end_change();
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
