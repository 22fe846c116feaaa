/* Free blocks of the hardened profile, by thread and class. hardened.c stands above, slab.c below. */
#include "quarantine.h"

#include "meta.h"
#include "pagemap.h"
#include "slab.h"

#include <errno.h>

enum { FILL_MAX = 32, READY_BYTES = 16 << 10 };

static uint32_t slots_of(uint32_t bytes, uint32_t cls) {
  uint32_t slots = bytes / hak_class_sizes[cls];
  return slots > HAK_QUARANTINE_SLOTS ? HAK_QUARANTINE_SLOTS : slots < 2 ? 2 : slots;
}

bool hak_quarantine_open(hak_heap_t *heap) {
  hak_quarantine_t *fresh = heap->quarantine ? NULL : hak_meta_alloc(sizeof *fresh);
  if (fresh) {
    fresh->random = hak_os_random();
    for (uint32_t kind = 0; kind < HAK_SLAB_KINDS; kind++) {
      uint32_t cls = hak_kind_class(kind);
      fresh->counts[kind].slots = cls > 0 && hak_hard.delay_bytes > 0 ? slots_of(hak_hard.delay_bytes, cls) : 0;
      fresh->counts[kind].room = cls > 0 ? slots_of(READY_BYTES, cls) : 0;
    }
    hak_fork_fence();
    heap->quarantine = fresh;
  }
  return heap->quarantine != NULL;
}

/* A block of a slab has a tag in its first word. Pages that the system took back lost their seals. False: the block is
 * damaged. */
static bool unseal(hak_free_block_t *block, uint32_t cls) {
  size_t size = hak_class_sizes[cls];
  uint64_t seal = hak_seal_load(block, size), freed = hak_seal_of(hak_seal_base(block), HAK_SEAL_FREED);
  if (HAK_UNLIKELY(!hak_is_marked_free(block) || (seal != 0 && seal != freed))) {
    hak_slab_damaged("malloc", block);
    return false;
  }
  block->tag = 0;
  hak_seal_store(block, size, freed);
  return true;
}

static uint32_t fill_from(hak_slab_t *slab, hak_free_block_t **blocks, uint32_t want, uint32_t cls) {
  uint32_t count = HAK_UNLIKELY(slab->unsealed) ? 0 : hak_slab_take(slab, blocks, want, false), sound = 0;
  for (uint32_t i = 0; i < count; i++) {
    blocks[sound] = blocks[i];
    sound += unseal(blocks[sound], cls);
  }
  return sound;
}

bool hak_quarantine_fill(hak_quarantine_t *quarantine, uint32_t kind) {
  hak_waiting_counts_t *counts = &quarantine->counts[kind];
  uint32_t want = counts->room / 2 < FILL_MAX ? counts->room / 2 : FILL_MAX, count = 0;
  while (count == 0) {
    hak_slab_t *slab = hak_slab_acquire(kind);
    if (!slab) {
      return false;
    }
    count = fill_from(slab, quarantine->waiting[kind].ready, want, hak_kind_class(kind));
    if (HAK_LIKELY(!slab->unsealed)) { /* else it stays CURRENT, and no thread uses it */
      hak_slab_drop(slab);
    }
  }
  hak_fork_fence();
  counts->ready = count;
  return true;
}

/* Return the blocks. `function` NULL: they are an orphan's, and one that does not look free is left out, since it may
 * be live. */
static void return_some(uint32_t cls, hak_free_block_t **blocks, uint32_t count, const char *function) {
  uint32_t whole = 0;
  for (uint32_t i = 0; i < count; i++) {
    hak_free_block_t *block = blocks[i];
    bool freed = hak_class_at(block) == cls && hak_seal_is_freed(block, hak_class_sizes[cls]);
    if (HAK_LIKELY(freed && (!hak_hard.zero || block->tag == 0))) {
      hak_mark_free(block);
      blocks[whole++] = block;
    } else if (function) {
      hak_misuse_met(function, freed ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, block);
    }
  }
  hak_slab_return(blocks, whole, cls, function);
}

void hak_quarantine_put_after_return(hak_quarantine_t *quarantine, uint32_t kind, hak_free_block_t *block) {
  int saved = errno;
  hak_waiting_counts_t *counts = &quarantine->counts[kind];
  hak_free_block_t **ready = quarantine->waiting[kind].ready;
  uint32_t keep = counts->room / 2;
  counts->ready = keep;
  hak_fork_fence();
  return_some(hak_kind_class(kind), ready + keep, counts->room - keep, "free");
  hak_quarantine_add_ready(counts, ready, block);
  errno = saved;
}

void hak_quarantine_put_first(hak_heap_t *heap, uint32_t cls, void *block) {
  hak_slab_return_one(block, cls, "free");
  if (heap) {
    hak_quarantine_open(heap);
  }
}

/* Each slot is cleared before its block is returned, so that no child of a fork gets the block twice. */
static void flush_array(uint32_t cls, hak_free_block_t **array, uint32_t slots, const char *function) {
  for (uint32_t i = 0; i < slots; i++) {
    hak_free_block_t *block = array[i];
    if (block) {
      array[i] = NULL;
      hak_fork_fence();
      return_some(cls, &block, 1, function);
    }
  }
}

void hak_quarantine_flush(hak_heap_t *heap, const char *function) {
  for (uint32_t kind = 1; heap->quarantine && kind < HAK_SLAB_KINDS; kind++) {
    hak_waiting_counts_t *counts = &heap->quarantine->counts[kind];
    hak_waiting_t *waiting = &heap->quarantine->waiting[kind];
    uint32_t cls = hak_kind_class(kind), count = counts->ready;
    counts->ready = 0;
    hak_fork_fence();
    return_some(cls, waiting->ready, count, function);
    flush_array(cls, waiting->queue, counts->slots, function);
    flush_array(cls, waiting->mixed, counts->slots, function);
  }
}

void *hak_quarantine_take_one(uint32_t cls, size_t bytes) {
  hak_free_block_t *block;
  bool sound = false;
  while (!sound && (block = hak_slab_take_one(cls))) {
    hak_mark_free(block);
    sound = unseal(block, cls);
    if (HAK_UNLIKELY(sound && !hak_freed_is_clean(block, hak_class_sizes[cls], false))) {
      hak_misuse_met("malloc", HAK_MISUSE_NOT_ZERO, block);
      sound = false;
    }
  }
  if (sound) {
    hak_seal_put(block, hak_class_sizes[cls], hak_seal_base(block), (uint32_t)bytes, false);
  }
  return block;
}

static uint32_t blocks_of(const hak_quarantine_t *quarantine, uint32_t kind) {
  uint32_t blocks = quarantine->counts[kind].ready;
  for (uint32_t i = 0; i < quarantine->counts[kind].slots; i++) {
    blocks += (quarantine->waiting[kind].queue[i] ? 1U : 0) + (quarantine->waiting[kind].mixed[i] ? 1U : 0);
  }
  return blocks;
}

uint32_t hak_quarantine_blocks(const hak_heap_t *heap, uint32_t cls) {
  const hak_quarantine_t *quarantine = cls < HAK_RUN_FIRST ? heap->quarantine : NULL;
  return quarantine ? blocks_of(quarantine, cls) + blocks_of(quarantine, hak_slab_kind(cls, true)) : 0;
}

static const void *find_in(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    bool clean = !blocks[i] || (hak_seal_is_freed(blocks[i], hak_class_sizes[cls]) &&
                                hak_freed_is_clean(blocks[i], hak_class_sizes[cls], false));
    if (!clean) {
      return blocks[i];
    }
  }
  return NULL;
}

const void *hak_quarantine_find_damaged(const hak_heap_t *heap) {
  const void *found = NULL;
  for (uint32_t kind = 1; heap->quarantine && kind < HAK_SLAB_KINDS && !found; kind++) {
    const hak_waiting_t *waiting = &heap->quarantine->waiting[kind];
    const hak_waiting_counts_t *counts = &heap->quarantine->counts[kind];
    uint32_t cls = hak_kind_class(kind);
    found = find_in(cls, waiting->ready, counts->ready);
    found = found ? found : find_in(cls, waiting->queue, counts->slots);
    found = found ? found : find_in(cls, waiting->mixed, counts->slots);
  }
  return found;
}
