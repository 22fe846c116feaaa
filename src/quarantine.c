/* Free blocks of the hardened profile, by thread and class. hardened.c stands above, slab.c below. */
#include "quarantine.h"

#include "meta.h"
#include "seal.h"
#include "slab.h"

enum { SLOTS = 64, SLOTS_MIN = 2, FILL_MAX = 32, READY_BYTES = 16 << 10 };

typedef struct waiting {
  hak_free_block_t *ready[SLOTS], *queue[SLOTS], *mixed[SLOTS];
  uint32_t ready_count, queue_at;
  uint32_t slots; /* of `queue` and of `mixed` that are in use */
  uint32_t room;  /* most blocks that are ready; 0: the class was not used yet */
} waiting_t;

typedef struct hak_quarantine {
  uint64_t random;
  waiting_t waiting[HAK_RUN_FIRST];
} hak_quarantine_t;

/* A number below `limit`, by the upper half of a product. */
static uint32_t random_below(hak_quarantine_t *quarantine, uint32_t limit) {
  quarantine->random = quarantine->random * 6364136223846793005U + 1442695040888963407U;
  return (uint32_t)((quarantine->random >> 32) * limit >> 32);
}

static uint32_t slots_of(uint32_t bytes, uint32_t cls) {
  uint32_t slots = bytes / hak_class_sizes[cls];
  return slots > SLOTS ? SLOTS : slots < SLOTS_MIN ? SLOTS_MIN : slots;
}

static waiting_t *waiting_of(hak_heap_t *heap, uint32_t cls) {
  if (HAK_UNLIKELY(!heap->quarantine)) {
    hak_quarantine_t *fresh = hak_meta_alloc(sizeof *fresh);
    if (!fresh) {
      return NULL;
    }
    fresh->random = hak_os_random();
    heap->quarantine = fresh;
  }
  waiting_t *waiting = &heap->quarantine->waiting[cls];
  if (HAK_UNLIKELY(waiting->room == 0)) {
    waiting->slots = hak_hard.delay_bytes > 0 ? slots_of(hak_hard.delay_bytes, cls) : 0;
    waiting->room = slots_of(READY_BYTES, cls);
  }
  return waiting;
}

bool hak_quarantine_is_clean(const void *block, uint32_t cls, size_t first) {
  return !hak_hard.zero || hak_is_zero((const char *)block + first, hak_class_sizes[cls] - HAK_SEAL_BYTES - first);
}

/* A block of a slab has a tag in its first word. Pages that the system took back lost their seals. */
static void unseal(hak_free_block_t *block, uint32_t cls) {
  size_t size = hak_class_sizes[cls];
  uint64_t seal = hak_seal_load(block, size);
  if (HAK_UNLIKELY(!hak_is_marked_free(block) || (seal != 0 && seal != hak_seal_of(block, HAK_SEAL_FREED)))) {
    hak_slab_damaged("malloc", block);
  }
  block->tag = 0;
  hak_seal_store(block, size, hak_seal_of(block, HAK_SEAL_FREED));
}

bool hak_quarantine_fill(hak_heap_t *heap, uint32_t cls) {
  waiting_t *waiting = waiting_of(heap, cls);
  if (!waiting) {
    return false;
  }
  uint32_t want = waiting->room / 2 < FILL_MAX ? waiting->room / 2 : FILL_MAX, count = 0;
  while (count == 0) {
    hak_slab_t *slab = hak_slab_acquire(cls);
    if (!slab) {
      return false;
    }
    if (HAK_UNLIKELY(slab->unsealed)) { /* stays CURRENT, and nobody's */
      continue;
    }
    count = hak_slab_take(slab, waiting->ready, want, false);
    for (uint32_t i = 0; i < count; i++) {
      unseal(waiting->ready[i], cls);
    }
    hak_slab_drop(slab);
  }
  waiting->ready_count = count;
  return true;
}

void *hak_quarantine_take(hak_heap_t *heap, uint32_t cls) {
  waiting_t *waiting = heap->quarantine ? &heap->quarantine->waiting[cls] : NULL;
  if (HAK_UNLIKELY(!waiting || waiting->ready_count == 0)) {
    return NULL;
  }
  uint32_t last = waiting->ready_count - 1, at = last;
  if (hak_hard.random && last > 0) {
    at = random_below(heap->quarantine, last + 1);
  }
  hak_free_block_t *block = waiting->ready[at], *other = waiting->ready[last];
  waiting->ready_count = last;
  waiting->ready[at] = other;
  if (HAK_UNLIKELY(!hak_seal_is_freed(block, hak_class_sizes[cls]) || !hak_quarantine_is_clean(block, cls, 0))) {
    hak_misuse("malloc", HAK_MISUSE_WRITTEN_FREE, block);
  }
  return block;
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

void hak_quarantine_put(hak_heap_t *heap, uint32_t cls, void *freed) {
  waiting_t *waiting = waiting_of(heap, cls);
  hak_free_block_t *block = freed, *older;
  if (HAK_UNLIKELY(!waiting)) {
    hak_quarantine_return_one(cls, freed);
    return;
  }
  if (waiting->slots > 0) {
    uint32_t at = random_below(heap->quarantine, waiting->slots);
    older = waiting->mixed[at];
    waiting->mixed[at] = block;
    if (!older) {
      return;
    }
    at = waiting->queue_at < waiting->slots - 1 ? waiting->queue_at + 1 : 0;
    block = waiting->queue[at];
    waiting->queue[at] = older;
    waiting->queue_at = at;
    if (!block) {
      return;
    }
  }
  if (HAK_UNLIKELY(waiting->ready_count == waiting->room)) {
    uint32_t keep = waiting->room / 2;
    waiting->ready_count = keep;
    return_some(cls, waiting->ready + keep, waiting->room - keep, "free");
  }
  waiting->ready[waiting->ready_count] = block;
  waiting->ready_count++;
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
    waiting_t *waiting = &heap->quarantine->waiting[c];
    uint32_t count = waiting->ready_count;
    if (waiting->room > 0) {
      waiting->ready_count = 0;
      return_some(c, waiting->ready, count, function);
      flush_array(c, waiting->queue, waiting->slots, function);
      flush_array(c, waiting->mixed, waiting->slots, function);
    }
  }
}

void *hak_quarantine_take_one(uint32_t cls) {
  hak_free_block_t *block = hak_slab_take_one(cls);
  if (block) {
    hak_mark_free(block);
    unseal(block, cls);
  }
  return block;
}

void hak_quarantine_return_one(uint32_t cls, void *block) {
  hak_slab_return_one(block, cls, "free");
}

uint32_t hak_quarantine_blocks(const hak_heap_t *heap, uint32_t cls) {
  const waiting_t *waiting = heap->quarantine && cls < HAK_RUN_FIRST ? &heap->quarantine->waiting[cls] : NULL;
  uint32_t blocks = waiting ? waiting->ready_count : 0;
  for (uint32_t i = 0; waiting && i < waiting->slots; i++) {
    blocks += (waiting->queue[i] ? 1U : 0) + (waiting->mixed[i] ? 1U : 0);
  }
  return blocks;
}

static const void *find_in(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    bool clean = !blocks[i] ||
                 (hak_seal_is_freed(blocks[i], hak_class_sizes[cls]) && hak_quarantine_is_clean(blocks[i], cls, 0));
    if (!clean) {
      return blocks[i];
    }
  }
  return NULL;
}

const void *hak_quarantine_find_damaged(const hak_heap_t *heap) {
  const void *found = NULL;
  for (uint32_t c = 1; heap->quarantine && c < HAK_RUN_FIRST && !found; c++) {
    const waiting_t *waiting = &heap->quarantine->waiting[c];
    found = find_in(c, waiting->ready, waiting->ready_count);
    found = found ? found : find_in(c, waiting->queue, waiting->slots);
    found = found ? found : find_in(c, waiting->mixed, waiting->slots);
  }
  return found;
}
