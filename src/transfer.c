#include "transfer.h"

#include "meta.h"

#include <string.h>

enum {
  BYTES_MAX = 128 << 10,
  BLOCKS_MAX = 2048,
  BATCH = 64, /* blocks moved under the lock at a time */
};

hak_transfer_t hak_transfers[HAK_RUN_FIRST] = {[0 ... HAK_RUN_FIRST - 1] = {.lock = HAK_LOCK_INIT}};

static uint32_t capacity_of(uint32_t cls) {
  uint32_t blocks = BYTES_MAX / hak_class_sizes[cls];
  return blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
}

static uint32_t room_in(hak_transfer_t *transfer, uint32_t cls) {
  hak_free_block_t **made = NULL;
  for (;;) {
    hak_lock(&transfer->lock);
    if (!transfer->blocks) { /* else another thread made it, too, and this one is lost */
      transfer->blocks = made;
    }
    bool ready = transfer->blocks != NULL;
    uint32_t room = ready ? capacity_of(cls) - transfer->count : 0;
    hak_unlock(&transfer->lock);
    if (ready || !(made = hak_meta_alloc(capacity_of(cls) * sizeof(hak_free_block_t *)))) {
      return room;
    }
  }
}

/* Returns how many of them found room. */
static uint32_t put_batch(hak_transfer_t *transfer, uint32_t cls, hak_free_block_t *const *batch, uint32_t count) {
  hak_lock(&transfer->lock);
  uint32_t room = capacity_of(cls) - transfer->count;
  count = count < room ? count : room;
  memcpy(transfer->blocks + transfer->count, batch, count * sizeof(void *));
  transfer->count += count;
  hak_unlock(&transfer->lock);
  return count;
}

static uint32_t take_batch(hak_transfer_t *transfer, hak_free_block_t **batch, uint32_t want) {
  hak_lock(&transfer->lock);
  uint32_t count = want < transfer->count ? want : transfer->count;
  if (count > 0) {
    transfer->count -= count;
    memcpy(batch, transfer->blocks + transfer->count, count * sizeof(void *));
    atomic_store_explicit(&transfer->taken, true, memory_order_relaxed);
  }
  hak_unlock(&transfer->lock);
  return count;
}

/* Back to a chain, in front of `chain`: what found no room. */
static hak_free_block_t *link_batch(hak_free_block_t *const *batch, uint32_t count, hak_free_block_t *chain,
                                    uintptr_t key) {
  while (count-- > 0) {
    hak_link(batch[count], chain, key);
    chain = batch[count];
  }
  return chain;
}

hak_free_block_t *hak_transfer_put(uint32_t cls, hak_free_block_t *chain, uint32_t *most, uintptr_t key,
                                   const char *function) {
  hak_transfer_t *transfer = &hak_transfers[cls];
  hak_free_block_t *batch[BATCH];
  uint32_t room = chain != HAK_LIST_END ? room_in(transfer, cls) : 0;
  while (chain != HAK_LIST_END && room > 0 && *most > 0) {
    uint32_t count = 0, put;
    while (count < BATCH && count < room && count < *most && (batch[count] = hak_slab_unchain(&chain, key, function))) {
      hak_slab_tag(batch[count++]);
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

hak_chain_t hak_transfer_take(uint32_t cls, uint32_t want, uintptr_t key, const char *function) {
  hak_free_block_t *batch[BATCH];
  hak_chain_t chain = {HAK_LIST_END, 0};
  while (chain.count < want) {
    uint32_t left = want - chain.count, count = take_batch(&hak_transfers[cls], batch, left < BATCH ? left : BATCH);
    if (count == 0) {
      break;
    }
    for (uint32_t i = 0; i < count; i++) {
      if (HAK_UNLIKELY(!hak_slab_tagged(batch[i]))) {
        hak_slab_damaged(function, batch[i]);
      }
    }
    chain.first = link_batch(batch, count, chain.first, key);
    chain.count += count;
  }
  return chain;
}

static void flush_class(uint32_t cls, bool idle_only) {
  _Atomic bool *taken = &hak_transfers[cls].taken;
  if (!atomic_exchange_explicit(taken, false, memory_order_relaxed) || !idle_only) {
    const uintptr_t key = 1; /* of no heap, and the end of lists does not fit it */
    for (hak_chain_t chain; (chain = hak_transfer_take(cls, BATCH, key, "free")).count > 0;) {
      hak_slab_return(chain.first, UINT32_MAX, key, "free");
    }
    atomic_store_explicit(taken, false, memory_order_relaxed);
  }
}

void hak_transfer_flush(bool idle_only) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    flush_class(cls, idle_only);
  }
}

void hak_transfer_verify(const char *function) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    hak_transfer_t *transfer = &hak_transfers[cls];
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

size_t hak_transfer_count(uint32_t cls) {
  hak_lock(&hak_transfers[cls].lock);
  size_t count = hak_transfers[cls].count;
  hak_unlock(&hak_transfers[cls].lock);
  return count;
}

hak_lock_t *hak_transfer_lock(uint32_t cls) {
  return &hak_transfers[cls].lock;
}
