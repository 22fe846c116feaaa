/* Free blocks of the hardened profile that ended threads left. quarantine.c stands above, slab.c below. */
#include "ended.h"

hak_lock_t hak_ended_lock = HAK_LOCK_INIT;
/* Blocks of ended threads, by kind: the oldest come first. */
static struct {
  hak_left_t *first, *last;
  _Atomic uint32_t count;
} ended[HAK_SLAB_KINDS] HAK_LARGE_DATA;

/* Keep the blocks that look free. Returns their number. */
static uint32_t keep_free(uint32_t cls, hak_free_block_t **blocks, uint32_t count, const char *function) {
  uint32_t whole = 0;
  for (uint32_t i = 0; i < count; i++) {
    hak_free_block_t *block = blocks[i];
    bool freed = hak_pagemap_class(block) == cls && hak_seal_is_freed(block, hak_class_sizes[cls]);
    if (HAK_LIKELY(freed && (!hak_hard.zero || block->tag == 0))) {
      blocks[whole++] = block;
    } else if (function) {
      hak_misuse_met(function, freed ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, block);
    }
  }
  return whole;
}

void hak_ended_sealed_return(uint32_t cls, hak_free_block_t **blocks, uint32_t count, const char *function) {
  count = keep_free(cls, blocks, count, function);
  for (uint32_t i = 0; i < count; i++) {
    hak_mark_free(blocks[i]);
  }
  if (count > 0) {
    hak_sweep_return(blocks, count, cls, function);
  }
}

static void count_ended_locked(uint32_t kind, uint32_t more) {
  uint32_t count = atomic_load_explicit(&ended[kind].count, memory_order_relaxed);
  atomic_store_explicit(&ended[kind].count, count + more, memory_order_relaxed);
}

static hak_left_t *first_out_locked(uint32_t kind) {
  hak_left_t *left = ended[kind].first;
  ended[kind].first = left->next;
  count_ended_locked(kind, 0 - left->count);
  return left;
}

/* Add the blocks to those of the last array if they fit there; else add the array, and set *left to NULL. */
static void add_left_locked(uint32_t kind, hak_left_t **left) {
  hak_left_t *fresh = *left, *last = ended[kind].first ? ended[kind].last : NULL;
  count_ended_locked(kind, fresh->count);
  if (last && last->room - last->count >= fresh->count) {
    hak_copy_words(last->blocks + last->count, fresh->blocks, fresh->count);
    last->count += fresh->count;
    return;
  }
  fresh->next = NULL;
  *(last ? &last->next : &ended[kind].first) = fresh;
  ended[kind].last = fresh;
  *left = NULL;
}

static void drop_left(hak_left_t *left) {
  if (left) {
    hak_magazine_drop(&(hak_magazine_t){(hak_free_block_t **)(void *)left, left->room + HAK_LEFT_WORDS - 1});
  }
}

void hak_ended_return(uint32_t kind, hak_left_t *left, const char *function) {
  hak_ended_sealed_return(hak_slab_kind_class(kind), left->blocks, left->count, function);
  drop_left(left);
}

/* An array returns when as many blocks have come after it as a thread lets wait, and a random number more. */
void hak_ended_leave(uint32_t kind, hak_left_t *left, const char *function) {
  uint32_t cls = hak_slab_kind_class(kind), delay = 2 * hak_ended_slots(hak_hard.delay_bytes, cls);
  left->count = keep_free(cls, left->blocks, left->count, function);
  if (left->count == 0 || hak_hard.delay_bytes == 0) {
    hak_ended_return(kind, left, function);
    return;
  }
  hak_lock(&hak_ended_lock);
  add_left_locked(kind, &left);
  delay += hak_chance(delay);
  for (hak_left_t *out; (out = ended[kind].first)->count + delay <= ended[kind].count;) {
    first_out_locked(kind);
    hak_unlock(&hak_ended_lock);
    hak_ended_return(kind, out, "free");
    hak_lock(&hak_ended_lock);
    if (!ended[kind].first) { /* another thread released them all */
      break;
    }
  }
  hak_unlock(&hak_ended_lock);
  drop_left(left);
}

void hak_ended_leave_one(uint32_t kind, hak_free_block_t *block) {
  hak_magazine_t made;
  if (hak_magazine_make(&made, 1)) {
    hak_left_t *left = hak_ended_left_in(&made);
    left->count = 1;
    left->blocks[0] = block;
    hak_ended_leave(kind, left, "free");
  } else {
    hak_ended_sealed_return(hak_slab_kind_class(kind), &block, 1, "free");
  }
}

void hak_ended_release(void) {
  for (uint32_t kind = 1; kind < HAK_SLAB_KINDS; kind++) {
    hak_left_t *left;
    do {
      hak_lock(&hak_ended_lock);
      left = ended[kind].first ? first_out_locked(kind) : NULL;
      hak_unlock(&hak_ended_lock);
      if (left) {
        hak_ended_return(kind, left, "free");
      }
    } while (left);
  }
}

uint32_t hak_ended_blocks(uint32_t cls) {
  uint32_t data = hak_slab_kind(cls, true);
  return cls >= HAK_RUN_FIRST ? 0
                              : atomic_load_explicit(&ended[cls].count, memory_order_relaxed) +
                                    atomic_load_explicit(&ended[data].count, memory_order_relaxed);
}

const void *hak_ended_sealed_find_damaged(uint32_t cls, hak_free_block_t *const *blocks, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    bool clean = !blocks[i] || (hak_seal_is_freed(blocks[i], hak_class_sizes[cls]) &&
                                hak_freed_is_clean(blocks[i], hak_class_sizes[cls], false));
    if (!clean) {
      return blocks[i];
    }
  }
  return NULL;
}

static const void *find_damaged_left(void) {
  const void *found = NULL;
  for (uint32_t kind = 1; kind < HAK_SLAB_KINDS; kind++) {
    for (const hak_left_t *left = ended[kind].first; left && !found; left = left->next) {
      found = hak_ended_sealed_find_damaged(hak_slab_kind_class(kind), left->blocks, left->count);
    }
  }
  return found;
}

const void *hak_ended_find_damaged(void) {
  const void *found = NULL;
  if (hak_lock_try(&hak_ended_lock)) { /* else a signal handler ends the process */
    found = find_damaged_left();
    hak_unlock(&hak_ended_lock);
  }
  return found;
}
