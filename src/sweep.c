#include "arena.h"
#include "options.h"
#include "os.h"
#include "slab_internal.h"

enum {
  SWEEP_AFTER_MIN = 64,  /* sparse slabs (4 MiB) before a sweep is worth its calls */
  SHRUNK_BY_MIN = 32,    /* units fewer in use than there were */
  SWEEP_AFTER_PART = 16, /* or this part of the units in use */
};

static _Atomic size_t sparse_since_sweep;

/* Take every free block of a listed slab, so that nobody else can get one while its page is given back. */
static void hold_free_blocks(hak_slab_t *slab, uint64_t held[HAK_BITS_WORDS]) {
  for (uint32_t w = 0; w * 64 < slab->blocks; w++) {
    held[w] = atomic_exchange_explicit(&slab->bits[w], 0, memory_order_acquire);
  }
}

static void let_go(hak_slab_t *slab, const uint64_t held[HAK_BITS_WORDS]) {
  for (uint32_t w = 0; w * 64 < slab->blocks; w++) {
    atomic_fetch_or_explicit(&slab->bits[w], held[w], memory_order_release);
  }
}

/* Whether all of [from, to) bytes of the slab are free blocks that are held, or were never carved. */
static bool is_free_range(const hak_slab_t *slab, const uint64_t held[HAK_BITS_WORDS], size_t from, size_t to) {
  uint32_t carved = atomic_load_explicit(&slab->carved, memory_order_relaxed);
  for (size_t i = from / slab->block_bytes; i * slab->block_bytes < to && i < carved; i++) {
    if (!(held[i / 64] >> i % 64 & 1)) {
      return false;
    }
  }
  return true;
}

static bool discard_free_pages(hak_slab_t *slab) {
  uint64_t held[HAK_BITS_WORDS] = {0};
  size_t page = hak_os_page_bytes(), run = 0;
  bool any = false;
  hold_free_blocks(slab, held);
  for (size_t at = 0; at <= HAK_UNIT_BYTES; at += page) {
    if (at < HAK_UNIT_BYTES && is_free_range(slab, held, at, at + page)) {
      run += page;
      continue;
    }
    if (run > 0) {
      any |= hak_os_discard(slab->base + at - run, run);
      run = 0;
    }
  }
  slab->discarded |= any;
  let_go(slab, held);
  return any;
}

/* Sparse, and not as it was after the last pass. */
static bool is_worth_a_pass(const hak_slab_t *slab) {
  uint32_t carved = atomic_load_explicit(&slab->carved, memory_order_relaxed);
  uint32_t count = atomic_load_explicit(&slab->control, memory_order_relaxed) >> HAK_SLAB_COUNT_SHIFT;
  return count <= carved && count != slab->swept_count && count >= hak_slab_sparse_from(carved);
}

bool hak_slab_discard_sparse(void) {
  bool any = false;
  atomic_store_explicit(&sparse_since_sweep, 0, memory_order_relaxed);
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_slab_class_t *class = &hak_slab_classes[c];
    hak_lock(&class->lock);
    for (hak_slab_t *slab = class->first; slab; slab = slab->next) {
      if (is_worth_a_pass(slab)) {
        any |= discard_free_pages(slab);
        slab->swept_count = atomic_load_explicit(&slab->control, memory_order_relaxed) >> HAK_SLAB_COUNT_SHIFT;
      }
    }
    hak_unlock(&class->lock);
  }
  return any;
}

/* Slabs that become sparse while the heap keeps its size mostly fill up again soon: sweep when it has shrunk, or when
 * as many slabs became sparse as half of the units in use. */
void hak_slab_became_sparse(void) {
  static _Atomic size_t most_used; /* units, since the last sweep */
  size_t used = hak_arena_used_units(), most = atomic_load_explicit(&most_used, memory_order_relaxed);
  size_t part = used / SWEEP_AFTER_PART;
  if (used > most) {
    atomic_store_explicit(&most_used, used, memory_order_relaxed);
    most = used;
  }
  size_t sparse = atomic_fetch_add_explicit(&sparse_since_sweep, 1, memory_order_relaxed) + 1;
  bool enough = sparse >= (part > SWEEP_AFTER_MIN ? part : SWEEP_AFTER_MIN);
  bool shrunk = used + (part > SHRUNK_BY_MIN ? part : SHRUNK_BY_MIN) <= most;
  if (enough && (shrunk || sparse >= used / 2)) {
    atomic_store_explicit(&most_used, used, memory_order_relaxed);
    hak_slab_discard_sparse();
  }
}

void hak_slab_totals(hak_slab_totals_t totals[HAK_BIN_COUNT]) {
  for (int c = 0; c < HAK_BIN_COUNT; c++) {
    totals[c] = (hak_slab_totals_t){0, 0, 0};
  }
  size_t slots = hak_arena_totals().slots_used;
  for (size_t unit = 0; unit < slots * HAK_SLOT_UNITS; unit++) {
    if (!hak_window.slots[unit / HAK_SLOT_UNITS].super) {
      continue;
    }
    hak_slab_t *slab = hak_slab_at(unit);
    uint32_t cls = atomic_load_explicit(&slab->cls, memory_order_relaxed);
    uint32_t control = atomic_load_explicit(&slab->control, memory_order_acquire);
    uint32_t carved = atomic_load_explicit(&slab->carved, memory_order_relaxed);
    uint32_t count = control >> HAK_SLAB_COUNT_SHIFT;
    totals[cls].slabs++;
    totals[cls].carved_blocks += carved;
    totals[cls].free_blocks += count <= carved ? count : carved; /* a return in flight shows as a huge count */
  }
  totals[HAK_CLASS_NONE] = (hak_slab_totals_t){0, 0, 0};
}

static void check_slab(hak_slab_t *slab) {
  uint32_t control = atomic_load(&slab->control), carved = atomic_load(&slab->carved), count = 0;
  HAK_VERIFY(carved <= slab->blocks);
  for (uint32_t w = 0; w * 64 < slab->blocks; w++) {
    uint64_t bits = atomic_load(&slab->bits[w]);
    count += (uint32_t)__builtin_popcountll(bits);
    HAK_VERIFY(bits == 0 || w * 64 + 63 - (uint32_t)__builtin_clzll(bits) < carved);
  }
  HAK_VERIFY(control >> HAK_SLAB_COUNT_SHIFT == count);
  HAK_VERIFY((control & (HAK_SLAB_CURRENT | HAK_SLAB_LISTED)) != (HAK_SLAB_CURRENT | HAK_SLAB_LISTED));
  HAK_VERIFY(control & (HAK_SLAB_CURRENT | HAK_SLAB_LISTED) || (count == 0 && carved == slab->blocks));
  HAK_VERIFY(!(control & HAK_SLAB_LISTED) || count < carved);
}

void hak_slab_check(void) {
  size_t slots = hak_arena_totals().slots_used;
  for (size_t unit = 0; unit < slots * HAK_SLOT_UNITS; unit++) {
    uint32_t cls = hak_window.classes[unit];
    if (cls != HAK_CLASS_NONE && cls != HAK_CLASS_LARGE) {
      hak_slab_t *slab = hak_slab_at(unit);
      HAK_VERIFY(slab->cls == cls && slab->block_bytes == hak_class_sizes[cls]);
      check_slab(slab);
    }
  }
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_slab_class_t *class = &hak_slab_classes[c];
    hak_lock(&class->lock);
    const hak_slab_t *before = NULL;
    for (hak_slab_t *slab = class->first; slab; before = slab, slab = slab->next) {
      HAK_VERIFY(slab->prev == before && (atomic_load(&slab->control) & HAK_SLAB_LISTED));
    }
    HAK_VERIFY(class->last == before);
    hak_unlock(&class->lock);
  }
}

void hak_slab_fork_lock(void) {
  for (int c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_lock(&hak_slab_classes[c].lock);
  }
}

void hak_slab_fork_unlock(bool in_child) {
  for (int c = HAK_CLASS_COUNT - 1; c >= 1; c--) {
    if (in_child) {
      hak_lock_reset(&hak_slab_classes[c].lock);
    } else {
      hak_unlock(&hak_slab_classes[c].lock);
    }
  }
}
