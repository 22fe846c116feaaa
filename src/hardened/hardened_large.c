/* Large blocks of the hardened profile: framed runs up to 256 KiB, and mappings of their own above. hardened.c calls
 * this; framed.c and mapped.c stand below. */
#include "hardened.h"

#include "hakmem.h"

#include "framed.h"
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
static void *take(size_t bytes, size_t align, size_t headroom, bool *zeroed) {
  bool data = hak_heap->quarantine && hak_heap->quarantine->data;
  void *block = bytes <= FRAMED_MAX && !data ? hak_framed_alloc(bytes, align, headroom, zeroed) : NULL;
  if (!block && hak_hard.delayed_regions > 0) {
    *zeroed = true;
    block = hak_mapped_alloc(bytes, align, headroom, HAK_MAPPED_GUARDED, data);
  }
  block = block ? block : hak_framed_alloc(bytes, align, headroom, zeroed); /* too many mappings */
  if (!block && hak_hard.delayed_regions > 0) {
    *zeroed = true;
    block = hak_mapped_alloc(bytes, align, headroom, HAK_MAPPED_FILLED, data);
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

/* Where a live block is: in a framed run, or in a mapping of its own. */
typedef struct place {
  bool framed;
  hak_framed_run_t run;
} place_t;

static bool find(const void *block, place_t *place) {
  place->framed = hak_framed_find(block, &place->run);
  return place->framed || hak_mapped_owns(block);
}

static bool owns(const void *block) {
  place_t place;
  return find(block, &place);
}

static size_t usable(const void *block, const place_t *at, const char *function) {
  return at->framed ? hak_framed_usable(&at->run, block, function) : hak_mapped_usable(block, function);
}

static bool resize(void *block, const place_t *at, size_t bytes, bool shrinks) {
  return at->framed ? hak_framed_resize(&at->run, block, bytes, shrinks) : hak_mapped_resize(block, bytes, shrinks);
}

static bool restore_mapped(const char *block) {
  uintptr_t page = hak_os_page_bytes(), first = (uintptr_t)block & -page;
  uintptr_t last = hak_round_up((uintptr_t)block + hak_mapped_usable(block, "free"), page);
  return hak_os_make_ordinary((void *)first, last - first, /* NOLINT(performance-no-int-to-ptr) */
                              atomic_load_explicit(&hak_page_attributes_ways, memory_order_relaxed));
}

/* Make pages ordinary that the program protected. False: the block is lost, so that no other thread gets it. */
static bool restore(void *block, const place_t *at) {
  if (HAK_LIKELY(!hak_page_attributes_any()) || hak_os_is_strict()) {
    return true;
  }
  return at->framed ? hak_page_attributes_restore_range(at->run.block, at->run.end) : restore_mapped(block);
}

/* Its pages are ordinary. */
static void free_at(void *block, const place_t *at, const char *function) {
  begin_change();
  if (at->framed) {
    hak_framed_free(&at->run, block, function);
  } else {
    hak_mapped_free(block, function);
  }
  end_change();
}

bool hak_hardened_free_large(void *block, size_t named, const char *function) {
  place_t at;
  int saved = errno;
  bool is = find(block, &at);
  if (is && restore(block, &at)) {
    if (named != HAK_UNSEALED && usable(block, &at, function) != named) {
      hak_misuse(function, HAK_MISUSE_WRONG_SIZE, block);
    }
    free_at(block, &at, function);
  }
  errno = saved;
  return is;
}

static void free_large(void *block) {
  hak_hardened_free_large(block, HAK_UNSEALED, "free");
}

static size_t usable_large(const void *block) {
  place_t at;
  find(block, &at);
  return usable(block, &at, "malloc_usable_size");
}

/* The block, or a fresh one to copy to. NULL: no memory. */
static void *resize_or_take(void *block, const place_t *at, size_t asked, size_t bytes) {
  bool zeroed;
  if (resize(block, at, bytes, false)) {
    return block;
  }
  if (bytes > PTRDIFF_MAX) {
    return hak_slow_no_memory();
  }
  void *fresh = asked < bytes ? take(bytes, HAK_BLOCK_MIN, bytes / HEADROOM_PART, &zeroed) : NULL;
  fresh = fresh ? fresh : hak_fast_alloc(bytes);
  return !fresh && resize(block, at, bytes, true) ? block : fresh; /* a shrunk block may stay */
}

/* A block of a type without pointers stays apart from the others. */
static void *realloc_large(void *block, size_t bytes) {
  place_t at;
  int saved = errno;
  find(block, &at);
  if (!restore(block, &at)) {
    return hak_slow_no_memory();
  }
  size_t asked = usable(block, &at, "realloc");
  bool data = !at.framed && hak_mapped_is_data(block), before = data && hak_hardened_type(true);
  begin_change();
  void *fresh = resize_or_take(block, &at, asked, bytes);
  end_change();
  if (data) {
    hak_hardened_type(before);
  }
  if (fresh && fresh != block) {
    memcpy(fresh, block, asked < bytes ? asked : bytes);
    free_at(block, &at, "realloc");
  }
  errno = fresh ? saved : ENOMEM;
  return fresh;
}

static const hak_owner_t *owner_of(const void *block) {
  static const hak_owner_t large = {.owns = owns, .free = free_large, .realloc = realloc_large, .usable = usable_large};
  return owns(block) ? &large : NULL;
}

static size_t place(const void *address, size_t *offset) {
  hak_framed_run_t run;
  bool framed = hak_framed_find(address, &run);
  *offset = framed ? (uintptr_t)address - (uintptr_t)run.block : 0;
  bool inside = framed && (uintptr_t)address >= (uintptr_t)run.block && (uintptr_t)address < (uintptr_t)run.end;
  return inside ? (size_t)(run.end - run.block) : hak_mapped_place(address, offset);
}

/* Only a request that the waiting runs could serve ends their delay. */
static void release_framed(size_t bytes) {
  size_t waiting = 0;
  for (uint32_t cls = HAK_RUN_FIRST; cls < HAK_CLASS_COUNT; cls++) {
    waiting += hak_framed_waiting(cls) * hak_class_sizes[cls];
  }
  if (bytes <= waiting) {
    hak_framed_give_up(true);
  }
}

/* What waits goes first to slabs and the arena, and from there to the system. */
static void release(size_t bytes) {
  hak_quarantine_release(hak_heap_mine());
  hak_trim(0);
  size_t swept = atomic_load_explicit(&hak_slabs_listed[HAK_SLABS_SWEPT], memory_order_relaxed);
  hak_mapped_forget(bytes);
  release_framed(bytes);
  if (hak_hard.regions && hak_slices_for(bytes) <= swept * HAK_SLAB_SLICES) {
    hak_sweep_release_empty();
  }
}

static void trim(void) {
  hak_framed_give_up(false);
}

static void each_lock(void (*visit)(hak_lock_t *lock, bool flag), bool flag) {
  visit(&hak_mapped_lock, flag);
  visit(&hak_framed_lock, flag);
  visit(&hak_ended_lock, flag);
}

const hak_hook_hardened_t hak_hook_hardened = {.part = {.start = hak_hardened_start,
                                                        .exit = hak_hardened_exit,
                                                        .each_lock = each_lock,
                                                        .fork_child = hak_hardened_fork_child,
                                                        .alloc = hak_hardened_alloc,
                                                        .usable = hak_hardened_usable},
                                               .malloc = hak_hardened_malloc,
                                               .free = hak_hardened_free,
                                               .free_sized = hak_hardened_free_sized,
                                               .realloc = hak_hardened_realloc,
                                               .owner = owner_of,
                                               .place = place,
                                               .why = hak_mapped_why,
                                               .flush = hak_quarantine_flush,
                                               .close = hak_quarantine_close,
                                               .trim = trim,
                                               .waiting_bytes = hak_mapped_waiting_bytes,
                                               .release = release};
