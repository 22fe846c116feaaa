#include "transfer.h"

enum {
  CHAINS = 8,
  BYTES_MAX = 64 << 10,
};

typedef struct transfer {
  hak_lock_t lock;
  uint32_t chains;
  size_t bytes;
  bool taken; /* since the last decay */
  struct {
    hak_chain_t chain;
    uintptr_t key;
  } chain[CHAINS];
} __attribute__((aligned(2 * HAK_CACHE_LINE))) transfer_t;

static transfer_t transfers[HAK_RUN_FIRST] = {[0 ... HAK_RUN_FIRST - 1] = {.lock = HAK_LOCK_INIT}};

static size_t bytes_of(uint32_t cls, hak_chain_t chain) {
  return (size_t)chain.count * hak_class_sizes[cls];
}

bool hak_transfer_put(uint32_t cls, hak_chain_t chain, uintptr_t key) {
  transfer_t *transfer = &transfers[cls];
  hak_lock(&transfer->lock);
  bool room = transfer->chains < CHAINS && transfer->bytes + bytes_of(cls, chain) <= BYTES_MAX;
  if (room) {
    transfer->chain[transfer->chains].chain = chain;
    transfer->chain[transfer->chains++].key = key;
    transfer->bytes += bytes_of(cls, chain);
  }
  hak_unlock(&transfer->lock);
  return room;
}

static hak_chain_t get_locked(uint32_t cls, uintptr_t *key) {
  transfer_t *transfer = &transfers[cls];
  hak_chain_t chain = {NULL, 0};
  if (transfer->chains > 0) {
    chain = transfer->chain[--transfer->chains].chain;
    *key = transfer->chain[transfer->chains].key;
    transfer->bytes -= bytes_of(cls, chain);
    transfer->taken = true;
  }
  return chain;
}

hak_chain_t hak_transfer_get(uint32_t cls, uintptr_t *key) {
  transfer_t *transfer = &transfers[cls];
  hak_lock(&transfer->lock);
  hak_chain_t chain = get_locked(cls, key);
  hak_unlock(&transfer->lock);
  return chain;
}

static void flush_class(uint32_t cls, bool idle_only) {
  transfer_t *transfer = &transfers[cls];
  for (;;) {
    uintptr_t key = 0;
    hak_chain_t chain = {NULL, 0};
    hak_lock(&transfer->lock);
    if (!idle_only || !transfer->taken) {
      chain = get_locked(cls, &key);
    }
    transfer->taken = false;
    hak_unlock(&transfer->lock);
    if (!chain.first) {
      return;
    }
    hak_slab_return(chain.first, key, "free");
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

void hak_transfer_totals(size_t blocks[HAK_BIN_COUNT]) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    hak_lock(&transfers[cls].lock);
    blocks[cls] = transfers[cls].bytes / hak_class_sizes[cls];
    hak_unlock(&transfers[cls].lock);
  }
}

hak_lock_t *hak_transfer_lock(uint32_t cls) {
  return &transfers[cls].lock;
}
