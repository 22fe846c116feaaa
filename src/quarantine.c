/* Free blocks of the hardened profile, by thread and class. hardened.c stands above, slab.c below. */
#include "quarantine.h"

#include "meta.h"
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
    for (uint32_t c = 1; c < HAK_RUN_FIRST; c++) {
      fresh->counts[c].slots = hak_hard.delay_bytes > 0 ? slots_of(hak_hard.delay_bytes, c) : 0;
      fresh->counts[c].room = slots_of(READY_BYTES, c);
    }
    heap->quarantine = fresh;
  }
  return heap->quarantine != NULL;
}

/* A block of a slab has a tag in its first word. Pages that the system took back lost their seals. */
static void unseal(hak_free_block_t *block, uint32_t cls) {
  size_t size = hak_class_sizes[cls];
  uint64_t seal = hak_seal_load(block, size), freed = hak_seal_of(hak_seal_base(block), HAK_SEAL_FREED);
  if (HAK_UNLIKELY(!hak_is_marked_free(block) || (seal != 0 && seal != freed))) {
    hak_slab_damaged("malloc", block);
  }
  block->tag = 0;
  hak_seal_store(block, size, freed);
}

static uint32_t fill_from(hak_slab_t *slab, hak_free_block_t **blocks, uint32_t want, uint32_t cls) {
  uint32_t count = HAK_UNLIKELY(slab->unsealed) ? 0 : hak_slab_take(slab, blocks, want, false);
  for (uint32_t i = 0; i < count; i++) {
    unseal(blocks[i], cls);
  }
  return count;
}

bool hak_quarantine_fill(hak_quarantine_t *quarantine, uint32_t cls) {
  hak_waiting_counts_t *counts = &quarantine->counts[cls];
  uint32_t want = counts->room / 2 < FILL_MAX ? counts->room / 2 : FILL_MAX, count = 0;
  while (count == 0) {
    hak_slab_t *slab = hak_slab_acquire(cls);
    if (!slab) {
      return false;
    }
    count = fill_from(slab, quarantine->waiting[cls].ready, want, cls);
    if (HAK_LIKELY(!slab->unsealed)) { /* else it stays CURRENT, and nobody's */
      hak_slab_drop(slab);
    }
  }
  counts->ready = count;
  return true;
}

static void return_some(uint32_t cls, hak_free_block_t **blocks, uint32_t count, const char *function) {
  for (uint32_t i = 0; i < count; i++) {
    bool written = !hak_seal_is_freed(blocks[i], hak_class_sizes[cls]) || (hak_hard.zero && blocks[i]->tag != 0);
    if (HAK_UNLIKELY(function && written)) {
      hak_misuse(function, HAK_MISUSE_WRITTEN_FREE, blocks[i]);
    }
    hak_mark_free(blocks[i]);
  }
  hak_slab_return(blocks, count, cls, function);
}

void hak_quarantine_put_after_return(hak_quarantine_t *quarantine, uint32_t cls, hak_free_block_t *block) {
  int saved = errno;
  hak_waiting_counts_t *counts = &quarantine->counts[cls];
  hak_free_block_t **ready = quarantine->waiting[cls].ready;
  uint32_t keep = counts->room / 2;
  counts->ready = keep;
  return_some(cls, ready + keep, counts->room - keep, "free");
  ready[counts->ready++] = block;
  errno = saved;
}

void hak_quarantine_put_first(hak_heap_t *heap, uint32_t cls, void *block) {
  hak_slab_return_one(block, cls, "free");
  if (heap) {
    hak_quarantine_open(heap);
  }
}

/* A place is empty before its block goes, so that no child of a fork gets the block twice. */
static void flush_array(uint32_t cls, hak_free_block_t **array, uint32_t slots, const char *function) {
  for (uint32_t i = 0; i < slots; i++) {
    hak_free_block_t *block = array[i];
    if (block) {
      array[i] = NULL;
      return_some(cls, &block, 1, function);
    }
  }
}

void hak_quarantine_flush(hak_heap_t *heap, const char *function) {
  for (uint32_t c = 1; heap->quarantine && c < HAK_RUN_FIRST; c++) {
    hak_waiting_counts_t *counts = &heap->quarantine->counts[c];
    hak_waiting_t *waiting = &heap->quarantine->waiting[c];
    uint32_t count = counts->ready;
    counts->ready = 0;
    return_some(c, waiting->ready, count, function);
    flush_array(c, waiting->queue, counts->slots, function);
    flush_array(c, waiting->mixed, counts->slots, function);
  }
}

void *hak_quarantine_take_one(uint32_t cls, size_t bytes) {
  hak_free_block_t *block = hak_slab_take_one(cls);
  if (block) {
    hak_mark_free(block);
    unseal(block, cls);
    hak_seal_put(block, hak_class_sizes[cls], hak_seal_base(block), (uint32_t)bytes);
  }
  return block;
}

uint32_t hak_quarantine_blocks(const hak_heap_t *heap, uint32_t cls) {
  const hak_quarantine_t *quarantine = cls < HAK_RUN_FIRST ? heap->quarantine : NULL;
  uint32_t blocks = quarantine ? quarantine->counts[cls].ready : 0;
  for (uint32_t i = 0; quarantine && i < quarantine->counts[cls].slots; i++) {
    blocks += (quarantine->waiting[cls].queue[i] ? 1U : 0) + (quarantine->waiting[cls].mixed[i] ? 1U : 0);
  }
  return blocks;
}

static const void *find_in(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    bool clean = !blocks[i] || (hak_seal_is_freed(blocks[i], hak_class_sizes[cls]) &&
                                hak_quarantine_is_clean(blocks[i], hak_class_sizes[cls], false));
    if (!clean) {
      return blocks[i];
    }
  }
  return NULL;
}

const void *hak_quarantine_find_damaged(const hak_heap_t *heap) {
  const void *found = NULL;
  for (uint32_t c = 1; heap->quarantine && c < HAK_RUN_FIRST && !found; c++) {
    const hak_waiting_t *waiting = &heap->quarantine->waiting[c];
    const hak_waiting_counts_t *counts = &heap->quarantine->counts[c];
    found = find_in(c, waiting->ready, counts->ready);
    found = found ? found : find_in(c, waiting->queue, counts->slots);
    found = found ? found : find_in(c, waiting->mixed, counts->slots);
  }
  return found;
}
