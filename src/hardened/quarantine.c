/* Free blocks of the hardened profile, by thread and kind of slab. hardened.c and cache.c stand above, policy.c and
 * ended.c below. */
#include "quarantine.h"

#include <errno.h>

enum {
  FILL_MAX = 32,          /* blocks that one fill fetches */
  READY_BYTES = 16 << 10, /* of a class (shared) */
  READY_LEAST = 4,        /* blocks, however large they are */
};

static _Atomic uint32_t releases; /* calls of hak_quarantine_release */

static bool is_open(const hak_waiting_t *waiting) {
  return hak_magazine_size(&waiting->array) > 0;
}

/* An array for blocks of the kind. False: no memory. */
static bool make_array(hak_magazine_t *made, uint32_t slots, uint32_t room) {
  bool ok = hak_magazine_make(made, 2 * slots + room);
  for (uint32_t i = 0; ok && i < 2 * slots; i++) {
    hak_magazine_slots(made)[1 + i] = NULL;
  }
  return ok;
}

/* Set the bounds, which a fork must not see before the array. */
static void set_array(hak_waiting_t *waiting, const hak_magazine_t *made, uint32_t slots, uint32_t room) {
  waiting->ready = waiting->queue_at = 0;
  atomic_store_explicit(&waiting->count, 0, memory_order_relaxed);
  hak_magazine_set(&waiting->array, made);
  hak_fork_fence();
  waiting->slots = slots;
  waiting->room = room;
}

/* Open the kind for the thread. The more threads there are, the smaller are the bounds. False: no memory. */
static bool open_kind(hak_quarantine_t *quarantine, uint32_t kind) {
  hak_waiting_t *waiting = &quarantine->waiting[kind];
  uint32_t cls = hak_slab_kind_class(kind), room = hak_ended_slots(hak_policy_share(READY_BYTES), cls);
  uint32_t slots = hak_hard.delay_bytes > 0 ? hak_ended_slots(hak_policy_share(hak_hard.delay_bytes), cls) : 0;
  hak_magazine_t made;
  room = room < READY_LEAST ? READY_LEAST : room;
  if (!is_open(waiting) && make_array(&made, slots, room)) {
    set_array(waiting, &made, slots, room);
  }
  return is_open(waiting);
}

bool hak_quarantine_open(hak_heap_t *heap) {
  hak_quarantine_t *fresh = heap->quarantine ? NULL : hak_meta_alloc(sizeof *fresh);
  if (fresh) {
    fresh->random = hak_os_random();
    fresh->releases_seen = atomic_load_explicit(&releases, memory_order_relaxed);
    hak_fork_fence();
    heap->quarantine = fresh;
  }
  return heap->quarantine != NULL;
}

/* Whether the program changed the access of the page. */
static bool is_protected(const char *address) {
  size_t page = (uintptr_t)address % HAK_CHUNK_BYTES >> HAK_PAGE_SHIFT;
  return atomic_load_explicit(&hak_pagemap_chunk(address)->attributes[page / 64], memory_order_relaxed) >> page % 64 &
         1;
}

/* The block before one that is handed out may be fresh, or lie on a discarded page. With a seal, zeros written there
 * are found as well. Another thread may be about to seal the same block. */
static void seal_before(const hak_free_block_t *block, size_t size) {
  char *before = (char *)(uintptr_t)block - size;
  uint64_t none = 0;
  bool may_read =
      hak_slab_offset(block) > 0 && !hak_pagemap_slab(block)->unsealed && !is_protected((const char *)block - 1);
  if (may_read && hak_seal_load(before, size) == none) {
    hak_seal_free_shared(before, size, none, hak_seal_of(hak_seal_base(before), HAK_SEAL_FREED));
  }
}

/* A block of a slab has a tag in its first word. Pages that the system took back lost their seals. False: the block is
 * damaged. */
static bool unseal(hak_free_block_t *block, uint32_t cls) {
  size_t size = hak_class_sizes[cls];
  uint64_t seal = hak_seal_load(block, size), freed = hak_seal_of(hak_seal_base(block), HAK_SEAL_FREED);
  if (HAK_UNLIKELY(!hak_is_marked_free(block) || (seal != 0 && seal != freed))) {
    hak_freed_damaged("malloc", block);
    return false;
  }
  block->tag = 0;
  hak_seal_store(block, size, freed);
  seal_before(block, size);
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

void hak_quarantine_put_slow(hak_quarantine_t *quarantine, uint32_t kind, hak_free_block_t *block) {
  int saved = errno;
  hak_waiting_t *waiting = &quarantine->waiting[kind];
  if (!is_open(waiting)) {
    if (open_kind(quarantine, kind)) {
      hak_quarantine_put(quarantine, kind, block);
    } else {
      hak_ended_leave_one(kind, block);
    }
  } else {
    uint32_t keep = waiting->room / 2;
    waiting->ready = keep;
    hak_fork_fence();
    hak_ended_sealed_return(hak_slab_kind_class(kind), hak_quarantine_ready(waiting) + keep, waiting->room - keep,
                            "free");
    hak_quarantine_add_ready(waiting, block);
  }
  errno = saved;
}

void hak_quarantine_put_first(hak_heap_t *heap, uint32_t kind, hak_free_block_t *block) {
  if (heap && hak_quarantine_open(heap)) {
    hak_quarantine_put(heap->quarantine, kind, block);
  } else {
    hak_ended_leave_one(kind, block);
  }
}

static void flush_ready(hak_waiting_t *waiting, uint32_t kind, const char *function) {
  uint32_t count = waiting->ready;
  waiting->ready = 0;
  hak_fork_fence();
  hak_ended_sealed_return(hak_slab_kind_class(kind), hak_quarantine_ready(waiting), count, function);
}

/* Take the array out of the heap. Its blocks, which are at the places of `mixed` and of the queue, move to its start.
 */
static hak_left_t *take_array(hak_waiting_t *waiting) {
  hak_magazine_t array = waiting->array;
  uint32_t places = 2 * waiting->slots;
  hak_free_block_t **mixed = hak_quarantine_mixed(waiting);
  waiting->slots = waiting->room = 0;
  atomic_store_explicit(&waiting->count, 0, memory_order_relaxed);
  hak_fork_fence();
  hak_magazine_set(&waiting->array, &HAK_MAGAZINE_NONE);
  hak_fork_fence();
  mixed[places] = places > 0 ? mixed[0] : NULL; /* the place of a ready block; the header takes that of mixed[0] */
  hak_left_t *left = hak_ended_left_in(&array);
  for (uint32_t i = 1; i <= places; i++) {
    if (mixed[i]) {
      left->blocks[left->count++] = mixed[i];
    }
  }
  return left;
}

void hak_quarantine_flush(hak_heap_t *heap, const char *function) {
  for (uint32_t kind = 1; heap->quarantine && kind < HAK_SLAB_KINDS; kind++) {
    hak_waiting_t *waiting = &heap->quarantine->waiting[kind];
    if (waiting->ready > 0) {
      flush_ready(waiting, kind, function);
    }
  }
}

/* Empty all kinds. `leave_blocks`: the waiting blocks go on waiting elsewhere; else they return, too. */
static void close_all(hak_quarantine_t *quarantine, bool leave_blocks, const char *function) {
  for (uint32_t kind = 1; kind < HAK_SLAB_KINDS; kind++) {
    hak_waiting_t *waiting = &quarantine->waiting[kind];
    if (is_open(waiting)) {
      flush_ready(waiting, kind, function);
      (leave_blocks ? hak_ended_leave : hak_ended_return)(kind, take_array(waiting), function);
    }
  }
}

void hak_quarantine_close(hak_heap_t *heap, const char *function) {
  if (heap->quarantine) {
    close_all(heap->quarantine, true, function);
    heap->quarantine->data = false;
  }
}

static void release_mine(hak_quarantine_t *quarantine) {
  quarantine->releases_seen = atomic_load_explicit(&releases, memory_order_relaxed);
  close_all(quarantine, false, "free");
}

void hak_quarantine_release(hak_heap_t *heap) {
  atomic_fetch_add_explicit(&releases, 1, memory_order_relaxed);
  if (heap && heap->quarantine) {
    release_mine(heap->quarantine);
  }
  hak_ended_release();
}

bool hak_quarantine_fill(hak_quarantine_t *quarantine, uint32_t kind) {
  hak_waiting_t *waiting = &quarantine->waiting[kind];
  uint32_t count = 0;
  if (HAK_UNLIKELY(quarantine->releases_seen != atomic_load_explicit(&releases, memory_order_relaxed))) {
    release_mine(quarantine);
  }
  if (!open_kind(quarantine, kind)) {
    return false;
  }
  uint32_t want = waiting->room / 2 < FILL_MAX ? waiting->room / 2 : FILL_MAX;
  while (count == 0) {
    hak_slab_t *slab = hak_slab_acquire(kind);
    if (!slab) {
      return false;
    }
    count = fill_from(slab, hak_quarantine_ready(waiting), want, hak_slab_kind_class(kind));
    if (HAK_LIKELY(!slab->unsealed)) { /* else it stays CURRENT, and no thread uses it */
      hak_slab_drop(slab);
    }
  }
  hak_fork_fence();
  waiting->ready = count;
  return true;
}

void *hak_quarantine_take_one(uint32_t cls, size_t bytes) {
  hak_free_block_t *block;
  bool sound = false;
  while (!sound && (block = hak_freed_take_one(cls))) {
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

static uint32_t blocks_of(const hak_waiting_t *waiting) {
  return waiting->ready + atomic_load_explicit(&waiting->count, memory_order_relaxed);
}

uint32_t hak_quarantine_blocks(const hak_heap_t *heap, uint32_t cls) {
  const hak_waiting_t *waiting = heap->quarantine ? heap->quarantine->waiting : NULL;
  bool any = waiting && cls < HAK_RUN_FIRST;
  return any ? blocks_of(&waiting[cls]) + blocks_of(&waiting[hak_slab_kind(cls, true)]) : 0;
}

static const void *find_damaged(const hak_waiting_t *waiting) {
  const void *found = NULL;
  for (uint32_t kind = 1; kind < HAK_SLAB_KINDS && !found; kind++) {
    const hak_waiting_t *of = &waiting[kind];
    found = is_open(of) ? hak_ended_sealed_find_damaged(hak_slab_kind_class(kind), hak_quarantine_mixed(of),
                                                        2 * of->slots + of->ready)
                        : NULL;
  }
  return found;
}

const void *hak_quarantine_find_damaged(const hak_heap_t *heap) {
  const void *found = heap->quarantine ? find_damaged(heap->quarantine->waiting) : NULL;
  return found ? found : hak_ended_find_damaged();
}
