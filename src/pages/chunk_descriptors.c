/* Spare descriptors of chunks, so that no change of a list fails half-way for want of one. */
#include "chunks.h"

enum {
  STOCK = 8, /* descriptors that one change of the lists may need at most */
  SPARE = 4, /* more of them, so that those of the first chunks lie together */
};

static bool is_stocked_locked(void) {
  return hak_placement.spare_chunks_count >= STOCK && hak_placement.spare_slabs_count >= 1;
}

/* The last one of the list has no valid link: nothing is written to fresh descriptors that wait alone. */
static void add_spare_slabs_locked(hak_slabs_t *slabs) {
  if (hak_placement.spare_slabs_count > 0) {
    slabs->next_spare = hak_placement.spare_slabs;
  }
  hak_placement.spare_slabs = slabs;
  hak_placement.spare_slabs_count++;
}

static void add_spare_chunk_locked(hak_chunk_t *chunk) {
  *chunk = (hak_chunk_t){.state = HAK_CHUNK_SPARE, .next = hak_placement.spare_chunks};
  hak_placement.spare_chunks = chunk;
  hak_placement.spare_chunks_count++;
}

void hak_chunk_spare_locked(hak_chunk_t *chunk) {
  if (chunk->slabs) {
    add_spare_slabs_locked(chunk->slabs);
  }
  add_spare_chunk_locked(chunk);
}

hak_chunk_t *hak_chunk_hold_locked(size_t count) {
  hak_chunk_t *held = NULL;
  for (; count > 0; count--) {
    hak_chunk_t *chunk = hak_placement.spare_chunks;
    hak_placement.spare_chunks = chunk->next;
    hak_placement.spare_chunks_count--;
    chunk->next = held;
    held = chunk;
  }
  return held;
}

static bool stock(void) {
  bool chunks = false;
  size_t wanted = 0;
  for (void *fresh = NULL;;) {
    hak_lock(&hak_arena.lock);
    if (fresh && chunks) {
      add_spare_slabs_locked(fresh);
    } else if (fresh) {
      add_spare_chunk_locked(fresh);
    }
    bool enough = is_stocked_locked();
    wanted = hak_placement.spare_chunks_count < STOCK ? STOCK + SPARE : wanted;
    chunks = hak_placement.spare_chunks_count >= wanted;
    hak_unlock(&hak_arena.lock);
    fresh = enough && chunks ? NULL : hak_meta_alloc(chunks ? sizeof(hak_slabs_t) : sizeof(hak_chunk_t));
    if (!fresh) {
      return enough;
    }
  }
}

bool hak_chunk_lock_stocked(void) {
  for (;;) {
    hak_lock(&hak_arena.lock);
    if (is_stocked_locked()) {
      return true;
    }
    hak_unlock(&hak_arena.lock);
    if (!stock()) {
      return false;
    }
  }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the descriptor keeps it */
hak_chunk_t *hak_chunk_new_locked(char *base, hak_chunk_state_t state) {
  hak_chunk_t *chunk = hak_chunk_hold_locked(1);
  *chunk = (hak_chunk_t){.base = base, .state = (uint8_t)state, .present = HAK_MASK_ALL};
  if (state == HAK_CHUNK_SLICED) {
    chunk->slabs = hak_placement.spare_slabs;
    hak_placement.spare_slabs_count--;
    hak_placement.spare_slabs = hak_placement.spare_slabs_count > 0 ? chunk->slabs->next_spare : NULL;
  }
  return chunk;
}
