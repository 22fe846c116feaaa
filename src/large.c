#include "large.h"

#include "arena.h"
#include "misuse.h"
#include "os.h"
#include "window.h"

#include <string.h>

enum { MOVE_MIN_BYTES = 512 << 10 }; /* below, copying is cheaper than moving pages */

static _Atomic size_t live_blocks, live_bytes;

static void count(hak_slab_t *large, bool up) {
  size_t blocks = up ? 1 : (size_t)-1, bytes = up ? large->large_bytes : -large->large_bytes;
  atomic_fetch_add_explicit(&live_blocks, blocks, memory_order_relaxed);
  atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed);
}

static hak_slab_t *descriptor(const void *block) {
  return hak_slab_at(hak_unit_of(block));
}

void *hak_large_alloc(size_t bytes, size_t align, bool *zeroed) {
  if (bytes > PTRDIFF_MAX || align > PTRDIFF_MAX) {
    return NULL;
  }
  size_t units = hak_units_for(bytes ? bytes : 1);
  size_t align_units = align > HAK_UNIT_BYTES ? align >> HAK_UNIT_SHIFT : 1;
  size_t first = hak_arena_take(units, align_units, zeroed);
  if (first == HAK_ARENA_NONE) {
    return NULL;
  }
  hak_slab_t *large = hak_slab_at(first);
  large->base = hak_window_address(first);
  large->large_bytes = hak_round_up(bytes ? bytes : 1, hak_os_page_bytes());
  large->units = (uint32_t)units;
  count(large, true);
  __atomic_store_n(&hak_window.classes[first], (uint8_t)HAK_CLASS_LARGE, __ATOMIC_RELAXED);
  return large->base;
}

/* The block is no block any more; its units are still taken. False: it was none. */
static bool forget(void *block) {
  /* Of two threads that free the same block, one finds the entry cleared. */
  uint8_t *entry = &hak_window.classes[hak_unit_of(block)];
  if (__atomic_exchange_n(entry, (uint8_t)HAK_CLASS_NONE, __ATOMIC_ACQ_REL) != HAK_CLASS_LARGE) {
    return false;
  }
  count(descriptor(block), false);
  return true;
}

void hak_large_free(void *block, const char *function) {
  if (hak_unit_offset(block) != 0) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  if (!forget(block)) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  hak_arena_give(hak_unit_of(block), descriptor(block)->units);
}

size_t hak_large_usable(const void *block) {
  return descriptor(block)->large_bytes;
}

static void set_bytes(hak_slab_t *large, size_t bytes) {
  count(large, false);
  atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
  large->large_bytes = hak_round_up(bytes, hak_os_page_bytes());
  atomic_fetch_add_explicit(&live_bytes, large->large_bytes, memory_order_relaxed);
}

bool hak_large_resize(void *block, size_t bytes) {
  if (bytes > PTRDIFF_MAX) {
    return false;
  }
  hak_slab_t *large = descriptor(block);
  size_t first = hak_unit_of(block), units = hak_units_for(bytes), had = large->units;
  if (units > had && !hak_arena_extend(first, had, units - had)) {
    return false;
  }
  large->units = (uint32_t)units;
  set_bytes(large, bytes);
  if (units < had) {
    hak_arena_give(first + units, had - units);
  }
  return true;
}

/* After a move that failed half-way: pages that moved read as zeros in `from`, and `to` began as zeros. */
static void copy_what_is_left(char *to, const char *from, size_t bytes) {
  size_t page = hak_os_page_bytes();
  for (size_t at = 0; at < bytes; at += page) {
    if (from[at] != 0 || memcmp(from + at, from + at + 1, page - 1) != 0) {
      memcpy(to + at, from + at, page);
    }
  }
}

/* False: the fresh block has lost its memory. */
static bool move_contents(char *fresh, char *block, size_t bytes, bool zeroed) {
  if (bytes < MOVE_MIN_BYTES || !(zeroed || hak_os_discard(fresh, bytes))) {
    memcpy(fresh, block, bytes);
    return true;
  }
  hak_os_move_result_t result = hak_os_move(block, fresh, bytes);
  if (result == HAK_OS_NOT_MOVED) {
    copy_what_is_left(fresh, block, bytes);
  }
  return result != HAK_OS_TARGET_LOST;
}

void *hak_large_move(void *block, size_t bytes) {
  bool zeroed;
  size_t old_bytes = descriptor(block)->large_bytes;
  HAK_ASSERT(old_bytes < bytes);
  void *fresh = hak_large_alloc(bytes, HAK_BLOCK_MIN, &zeroed);
  if (!fresh) {
    return NULL;
  }
  if (!move_contents(fresh, block, old_bytes, zeroed)) {
    forget(fresh); /* its addresses stay out of use */
    return NULL;
  }
  hak_large_free(block, "realloc");
  return fresh;
}

_Noreturn HAK_COLD void hak_large_diagnose(const char *function, const void *address) {
  size_t unit = hak_unit_of(address);
  hak_misuse_t reason = HAK_MISUSE_INVALID;
  size_t slot = unit / HAK_SLOT_UNITS;
  if (unit < hak_window.units && slot < hak_arena_totals().slots_used) {
    if (!hak_arena_is_free(unit)) {
      reason = HAK_MISUSE_NOT_START; /* inside a large block */
    } else if (hak_window.slots[slot].super && hak_slab_at(unit)->base) {
      reason = HAK_MISUSE_DOUBLE_FREE; /* blocks were here once */
    }
  }
  hak_misuse(function, reason, address);
}

hak_large_totals_t hak_large_totals(void) {
  hak_large_totals_t totals = {atomic_load_explicit(&live_blocks, memory_order_relaxed),
                               atomic_load_explicit(&live_bytes, memory_order_relaxed)};
  return totals;
}
