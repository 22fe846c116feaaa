/* The return of blocks, and sweeps that it starts: they discard free pages inside slabs that are nearly empty. */
#include "slab.h"

#include "freed.h"
#include "mixed.h"

/* Slabs of one step. A sweep of fewer slabs is not worth its calls. Nor is one of a smaller part of the memory in use
 * than the part that makes a slab sparse. */
enum { STEP_SLABS = HAK_PURGE_STEP / HAK_SLAB_SLICES };

static _Atomic size_t most_full; /* peak use since the last sweep, in slabs */

static size_t listed(int list) {
  return atomic_load_explicit(&hak_slabs_listed[list], memory_order_relaxed);
}

/* Whether bytes [from, to) of the slab hold only blocks that are free or were never handed out. */
static bool is_free_range(const hak_slab_t *slab, size_t from, size_t to) {
  uint32_t bump = hak_slab_bump(slab);
  for (size_t i = from / slab->block_bytes; i * slab->block_bytes < to && i < bump; i++) {
    /* acquire: pairs with hak_slab_put_back */
    if (!(atomic_load_explicit(&slab->bits[i / 64], memory_order_acquire) >> i % 64 & 1)) {
      return false;
    }
  }
  return true;
}

/* The slab is CURRENT: no other thread takes a block while a page is discarded, but threads may return blocks. */
static bool discard_free_pages(hak_slab_t *slab) {
  size_t page = hak_os_page_bytes(), slab_bytes = (size_t)slab->slices << HAK_SLICE_SHIFT, run = 0;
  bool any = false;
  for (size_t at = 0; at <= slab_bytes; at += page) {
    if (at < slab_bytes && is_free_range(slab, at, at + page)) {
      run += page;
      continue;
    }
    if (run > 0) {
      if (HAK_UNLIKELY(hak_hard.on)) {
        hak_freed_expect(slab, at - run, at);
      }
      slab->discarded = true; /* a failed attempt (at a locked page, say) may have discarded others */
      bool written = !slab->zeroed || at - run < (size_t)hak_slab_bump(slab) * slab->block_bytes;
      any |= hak_os_discard(slab->base + at - run, run) && written;
      run = 0;
    }
  }
  return any;
}

bool hak_sweep_is_listed(uint32_t cls) {
  bool listed = false;
  for (int list = 0; hak_slab_was_made(cls) && list < HAK_SLABS_LISTS; list++) {
    listed |= __atomic_load_n(&hak_slab_classes[cls].list[list].first, __ATOMIC_RELAXED) != NULL;
  }
  return listed;
}

/* One more than the number of kinds of slabs. Only the hardened profile has two kinds for each class. */
static int kinds(void) {
  return hak_hard.on ? HAK_SLAB_KINDS : HAK_RUN_FIRST;
}

/* Take a slab of the class and list for the caller, so that no lock is held over system calls. It takes the first one,
 * without a search. NULL: there is none. */
static hak_slab_t *hold_one(hak_slab_class_t *class, int list) {
  hak_lock(&class->lock);
  hak_slab_t *slab = class->list[list].first;
  if (slab) {
    uint32_t bump = hak_slab_bump(slab), free = hak_slab_count(slab);
    hak_slab_hold_locked(slab, HAK_SLABS_SWEPT);
    class->sparse += list == HAK_SLABS_DENSE; /* it is counted in `left` once a thread takes it */
    /* The slab is worth another pass when half of the blocks in use came back. */
    uint32_t again = bump - (bump - free) / 2;
    /* It must be above the present count: in the child of a fork, blocks in use may count as free. */
    atomic_store_explicit(&slab->sparse_from, again > free ? again : free + 1, memory_order_relaxed);
  }
  hak_unlock(&class->lock);
  return slab;
}

/* Continue a pass over the class by one short step. Returns the number of slabs; *any: a page was discarded. */
static size_t sweep_class(int cls, int list, bool *any) {
  size_t count = 0;
  for (hak_slab_t *slab; count < STEP_SLABS && (slab = hold_one(&hak_slab_classes[cls], list)); count++) {
    *any |= discard_free_pages(slab);
    hak_slab_drop(slab);
  }
  return count;
}

static bool discard_listed(int list) {
  bool any = false;
  for (int c = 1; c < kinds(); c++) {
    while (sweep_class(c, list, &any) == STEP_SLABS) {
    }
  }
  return any;
}

bool hak_sweep_sparse(void) {
  return discard_listed(HAK_SLABS_SPARSE);
}

/* Start with the dense slabs: threads take from the swept list in that order. */
bool hak_sweep_all(void) {
  bool dense = discard_listed(HAK_SLABS_DENSE);
  return discard_listed(HAK_SLABS_SPARSE) || dense;
}

/* Number of swept slabs of the class, if one of them is empty; else 0. */
static size_t swept_of(uint32_t kind) {
  hak_slab_class_t *class = &hak_slab_classes[kind];
  size_t count = 0;
  bool any = false;
  if (!hak_slab_was_made(kind)) {
    return 0;
  }
  hak_lock(&class->lock);
  for (hak_slab_t *slab = class->list[HAK_SLABS_SWEPT].first; slab; slab = slab->next, count++) {
    any |= hak_slab_is_whole(slab);
  }
  hak_unlock(&class->lock);
  return any ? count : 0;
}

bool hak_sweep_release_empty(void) {
  bool any = false;
  hak_sweep_sparse(); /* after this every empty slab is a swept one */
  atomic_fetch_add_explicit(&hak_freed_releasing, 1, memory_order_relaxed);
  for (int c = 1; c < kinds(); c++) {
    hak_slab_t *slab;
    for (size_t left = swept_of((uint32_t)c); left > 0 && (slab = hold_one(&hak_slab_classes[c], HAK_SLABS_SWEPT));
         left--) {
      any |= hak_slab_is_whole(slab);
      hak_slab_drop(slab);
    }
  }
  atomic_fetch_sub_explicit(&hak_freed_releasing, 1, memory_order_relaxed);
  return any;
}

/* Whether the class's sparse slabs tend to stay sparse, by recent counts. */
static bool stay_sparse(uint32_t kind) {
  hak_slab_class_t *class = &hak_slab_classes[kind];
  if (!hak_slab_was_made(kind)) { /* there is nothing to sweep */
    return false;
  }
  hak_lock(&class->lock);
  uint32_t sparse = class->sparse;
  bool stay = sparse < STEP_SLABS || class->left < sparse - sparse / HAK_SPARSE_PART;
  hak_unlock(&class->lock);
  return stay;
}

/* Halve the counts after each decay time. */
static void forget_half(uint32_t kind) {
  hak_slab_class_t *class = &hak_slab_classes[kind];
  if (!hak_slab_was_made(kind)) {
    return;
  }
  hak_lock(&class->lock);
  class->sparse /= 2;
  class->left /= 2;
  hak_unlock(&class->lock);
}

/* Class at which the pass continues; 0: no pass is under way. */
static _Atomic int sweeping;

static void begin_sweep(size_t full) {
  int none = 0;
  if (!hak_retain_keeps_all() &&
      atomic_compare_exchange_strong_explicit(&sweeping, &none, 1, memory_order_relaxed, memory_order_relaxed)) {
    atomic_store_explicit(&most_full, full, memory_order_relaxed);
  }
}

bool hak_sweep_step(void) {
  bool any = false;
  int cls = atomic_load_explicit(&sweeping, memory_order_relaxed);
  if (cls > 0 && (!stay_sparse((uint32_t)cls) || sweep_class(cls, HAK_SLABS_SPARSE, &any) < STEP_SLABS)) {
    int next = cls + 1 < kinds() ? cls + 1 : 0;
    atomic_compare_exchange_strong_explicit(&sweeping, &cls, next, memory_order_relaxed, memory_order_relaxed);
  }
  return atomic_load_explicit(&sweeping, memory_order_relaxed) > 0;
}

/* Memory in use, counted in slabs, without the swept slabs. */
static size_t full_slabs(void) {
  size_t used = hak_retain_used_slices() / HAK_SLAB_SLICES, swept = listed(HAK_SLABS_SWEPT);
  return used > swept ? used - swept : 0;
}

/* A slab became sparse. In a heap of constant size, sparse slabs mostly fill up again soon. So sweep when the heap has
 * shrunk, or when half of the memory in use is sparse. */
static void became_sparse(void) {
  size_t full = full_slabs(), most = atomic_load_explicit(&most_full, memory_order_relaxed);
  size_t part = full / HAK_SPARSE_PART, worth = part > STEP_SLABS ? part : STEP_SLABS,
         sparse = listed(HAK_SLABS_SPARSE);
  if (full > most) {
    atomic_store_explicit(&most_full, full, memory_order_relaxed);
    most = full;
  }
  if (sparse >= worth && (full + worth <= most || sparse >= full / 2)) {
    begin_sweep(full);
  }
  hak_sweep_step();
}

static void do_rest(hak_slab_rest_t rest) {
  if (rest.slices > 0) {
    hak_purge_after_free(rest.slices);
  }
  if (rest.sparse) {
    became_sparse();
  }
}

void hak_sweep_return(hak_free_block_t *const *blocks, uint32_t count, uint32_t cls, const char *function) {
  do_rest(hak_slab_put(blocks, count, cls, function));
}

void hak_sweep_return_one(void *block, uint32_t cls, const char *function) {
  do_rest(hak_slab_put_one(block, cls, function));
}

/* After a decay time, sweep the slabs that became sparse since the last sweep, even if they are too few for a step. */
void hak_sweep_decay(void) {
  for (int c = 1; c < kinds(); c++) {
    forget_half((uint32_t)c);
  }
  if (listed(HAK_SLABS_SPARSE) > full_slabs() / HAK_SPARSE_PART) {
    begin_sweep(full_slabs());
  }
}

static void check_slab(hak_slab_t *slab, void *unused) {
  (void)unused;
  if (slab->cls == HAK_CLASS_NONE) {
    return;
  }
  if (slab->cls == HAK_CLASS_MIXED) {
    hak_mixed_check(slab);
    return;
  }
  HAK_VERIFY(hak_pagemap_class(slab->base) == slab->cls && slab->block_bytes == hak_class_sizes[slab->cls]);
  uint32_t control = atomic_load(&slab->control), bump = atomic_load(&slab->bump), count = 0;
  HAK_VERIFY(bump <= slab->blocks);
  for (uint32_t w = 0; w * 64 < slab->blocks; w++) {
    uint64_t bits = atomic_load(&slab->bits[w]);
    count += (uint32_t)__builtin_popcountll(bits);
    HAK_VERIFY(bits == 0 || w * 64 + 63 - (uint32_t)__builtin_clzll(bits) < bump);
  }
  HAK_VERIFY(control >> HAK_SLAB_COUNT_SHIFT == count);
  HAK_VERIFY((control & (HAK_SLAB_CURRENT | HAK_SLAB_LISTED)) != (HAK_SLAB_CURRENT | HAK_SLAB_LISTED));
  HAK_VERIFY(control & (HAK_SLAB_CURRENT | HAK_SLAB_LISTED) || (count == slab->fenced && bump == slab->blocks));
  HAK_VERIFY(!(control & HAK_SLAB_LISTED) || count < bump || hak_hard.regions);
}

void hak_sweep_check(void) {
  hak_arena_each_slab(check_slab, NULL);
  for (int c = 1; c < kinds(); c++) {
    hak_slab_class_t *class = &hak_slab_classes[c];
    hak_lock(&class->lock);
    for (int i = 0; i < HAK_SLABS_LISTS; i++) {
      const hak_slab_t *before = NULL;
      for (hak_slab_t *slab = class->list[i].first; slab; before = slab, slab = slab->next) {
        HAK_VERIFY(slab->prev == before && slab->list == i && (atomic_load(&slab->control) & HAK_SLAB_LISTED));
      }
      HAK_VERIFY(class->list[i].last == before);
    }
    hak_unlock(&class->lock);
  }
}
