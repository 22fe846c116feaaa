#include "transfer.h"

#include "meta.h"

#include <string.h>

enum {
  BYTES_MAX = 128 << 10,
  BLOCKS_MAX = 2048,
  BATCH = 64, /* blocks moved under the lock at a time */
};

typedef struct transfer {
  hak_lock_t lock;
  uint32_t count;
  bool taken;                /* since the last decay */
  hak_free_block_t **blocks; /* made when first needed */
} __attribute__((aligned(HAK_CACHE_LINE))) transfer_t;

static transfer_t transfers[HAK_RUN_FIRST] = {[0 ... HAK_RUN_FIRST - 1] = {.lock = HAK_LOCK_INIT}};

static uint32_t capacity_of(uint32_t cls) {
  uint32_t blocks = BYTES_MAX / hak_class_sizes[cls];
  return blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
}

static uint32_t room_in(transfer_t *transfer, uint32_t cls) {
  hak_lock(&transfer->lock);
  uint32_t room = transfer->blocks ? capacity_of(cls) - transfer->count : 0;
  bool make = transfer->blocks == NULL;
  hak_unlock(&transfer->lock);
  if (!make) {
    return room;
  }
  hak_free_block_t **blocks = hak_meta_alloc(capacity_of(cls) * sizeof(hak_free_block_t *));
  hak_lock(&transfer->lock);
  if (!transfer->blocks) { /* else another thread made it, too, and this one is lost */
    transfer->blocks = blocks;
  }
  room = transfer->blocks ? capacity_of(cls) - transfer->count : 0;
  hak_unlock(&transfer->lock);
  return room;
}

/* Returns how many of them found room. */
static uint32_t put_batch(transfer_t *transfer, uint32_t cls, hak_free_block_t *const *batch, uint32_t count) {
  hak_lock(&transfer->lock);
  uint32_t room = capacity_of(cls) - transfer->count;
  count = count < room ? count : room;
  memcpy(transfer->blocks + transfer->count, batch, count * sizeof(void *));
  transfer->count += count;
  hak_unlock(&transfer->lock);
  return count;
}

static uint32_t take_batch(transfer_t *transfer, hak_free_block_t **batch, uint32_t want) {
  hak_lock(&transfer->lock);
  uint32_t count = want < transfer->count ? want : transfer->count;
  if (count > 0) {
    transfer->count -= count;
    memcpy(batch, transfer->blocks + transfer->count, count * sizeof(void *));
    transfer->taken = true;
  }
  hak_unlock(&transfer->lock);
  return count;
}

/* Back to a chain, in front of `chain`: what found no room. */
static hak_free_block_t *link_batch(hak_free_block_t *const *batch, uint32_t count, hak_free_block_t *chain,
                                    uintptr_t key) {
  while (count-- > 0) {
    hak_free_block_t *block = batch[count];
    hak_link(block, chain, key);
    chain = block;
  }
  return chain;
}

hak_free_block_t *hak_transfer_put(uint32_t cls, hak_free_block_t *chain, uint32_t *most, uintptr_t key,
                                   const char *function) {
  transfer_t *transfer = &transfers[cls];
  hak_free_block_t *batch[BATCH];
  uint32_t room = chain != HAK_LIST_END ? room_in(transfer, cls) : 0;
  while (chain != HAK_LIST_END && room > 0 && *most > 0) {
    uint32_t count = 0, put;
    for (; chain != HAK_LIST_END && count < BATCH && count < room && count < *most; count++) {
      hak_free_block_t *next = chain->link;
      if (HAK_UNLIKELY(!hak_is_linked(chain, key))) {
        hak_slab_damaged(function, chain);
      }
      hak_slab_tag(chain);
      batch[count] = chain;
      chain = next;
    }
    put = put_batch(transfer, cls, batch, count);
    room -= put;
    *most -= put;
    if (put < count) {
      return link_batch(batch + put, count - put, chain, key);
    }
  }
  return chain;
}

hak_chain_t hak_transfer_take(uint32_t cls, uint32_t want, uintptr_t key) {
  hak_free_block_t *batch[BATCH];
  hak_chain_t chain = {HAK_LIST_END, 0};
  while (chain.count < want) {
    uint32_t left = want - chain.count, count = take_batch(&transfers[cls], batch, left < BATCH ? left : BATCH);
    if (count == 0) {
      break;
    }
    for (uint32_t i = 0; i < count; i++) {
      if (HAK_UNLIKELY(!hak_slab_tagged(batch[i]))) {
        hak_slab_damaged("malloc", batch[i]);
      }
    }
    chain.first = link_batch(batch, count, chain.first, key);
    chain.count += count;
  }
  return chain;
}

static void flush_class(uint32_t cls, bool idle_only) {
  transfer_t *transfer = &transfers[cls];
  hak_lock(&transfer->lock);
  bool idle = !transfer->taken;
  transfer->taken = false;
  hak_unlock(&transfer->lock);
  if (idle || !idle_only) {
    hak_free_block_t *batch[BATCH];
    for (uint32_t count; (count = take_batch(transfer, batch, BATCH)) > 0;) {
      hak_slab_return_tagged(batch, count, "free");
    }
    hak_lock(&transfer->lock);
    transfer->taken = false;
    hak_unlock(&transfer->lock);
  }
}

void hak_transfer_decay(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    flush_class(cls, true);
  }
}

void hak_transfer_flush(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    flush_class(cls, false);
  }
}

void hak_transfer_verify(const char *function) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    transfer_t *transfer = &transfers[cls];
    if (!hak_lock_try(&transfer->lock)) {
      continue;
    }
    const hak_free_block_t *damaged = NULL;
    for (uint32_t i = 0; i < transfer->count && !damaged; i++) {
      damaged = hak_slab_tagged(transfer->blocks[i]) ? NULL : transfer->blocks[i];
    }
    hak_unlock(&transfer->lock);
    if (damaged) {
      hak_slab_damaged(function, damaged);
    }
  }
}

void hak_transfer_totals(size_t blocks[HAK_BIN_COUNT]) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    hak_lock(&transfers[cls].lock);
    blocks[cls] = transfers[cls].count;
    hak_unlock(&transfers[cls].lock);
  }
}

hak_lock_t *hak_transfer_lock(uint32_t cls) {
  return &transfers[cls].lock;
}
