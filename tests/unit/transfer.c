/* Blocks between threads: what is put can be taken under another key, as much as there is room for, and does not stay
 * where nobody takes it. */
#include "transfer.h"

#include <string.h>

#include "arena.h"
#include "chain.h"
#include "child.h"
#include "meta.h"
#include "system.h"
#include "totals.h"

enum { BYTES = 1024, ROOM = (128 << 10) / BYTES, BLOCKS = 4 * ROOM };

#define OTHER_KEY ((uintptr_t)0xdecade0000000003)

static uint32_t cls;
static void *blocks[BLOCKS];

static size_t waiting(void) {
  for (uint32_t c = 1; c < HAK_RUN_FIRST; c++) {
    CHECK(c == cls || hak_transfer_count(c) == 0);
  }
  return hak_transfer_count(cls);
}

static void set_up(void) {
  hak_slab_init();
  cls = hak_class_of(BYTES);
  for (uint32_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_slab_take_one(cls);
    CHECK(blocks[i] != NULL);
  }
}

/* The chain of blocks[from ..], in this order. */
static hak_free_block_t *chain_of(uint32_t from, uint32_t count) {
  hak_free_block_t *chain = HAK_LIST_END;
  while (count-- > 0) {
    chain_push(&chain, blocks[from + count]);
  }
  return chain;
}

static uint32_t length_of(const hak_free_block_t *chain, uintptr_t key) {
  uint32_t count = 0;
  for (; chain != HAK_LIST_END; chain = chain->link, count++) {
    CHECK(hak_is_linked(chain, key));
  }
  return count;
}

static bool is_among(const void *block, uint32_t from, uint32_t count) {
  for (uint32_t i = from; i < from + count; i++) {
    if (blocks[i] == block) {
      return true;
    }
  }
  return false;
}

static hak_free_block_t *put_chain(uint32_t its_class, hak_free_block_t *chain) {
  uint32_t most = UINT32_MAX;
  return hak_transfer_put(its_class, chain, &most, CHAIN_KEY, "test");
}

static void put_all(uint32_t from, uint32_t count) {
  CHECK(put_chain(cls, chain_of(from, count)) == HAK_LIST_END);
}

static void what_is_put_can_be_taken(void) {
  put_all(0, 10);
  CHECK(waiting() == 10);
  hak_chain_t chain = hak_transfer_take(cls, 4, OTHER_KEY, "malloc");
  CHECK(chain.count == 4 && length_of(chain.first, OTHER_KEY) == 4 && waiting() == 6);
  put_all(10, 3); /* what came last goes first */
  chain = hak_transfer_take(cls, 3, OTHER_KEY, "malloc");
  CHECK(chain.count == 3 && waiting() == 6);
  for (hak_free_block_t *block = chain.first; block != HAK_LIST_END; block = block->link) {
    CHECK(is_among(block, 10, 3));
  }
  chain = hak_transfer_take(cls, BLOCKS, OTHER_KEY, "malloc");
  CHECK(chain.count == 6 && length_of(chain.first, OTHER_KEY) == 6 && waiting() == 0);
  chain = hak_transfer_take(cls, 1, OTHER_KEY, "malloc");
  CHECK(chain.count == 0 && chain.first == HAK_LIST_END);
  CHECK(hak_transfer_take(cls + 1, 1, OTHER_KEY, "malloc").first == HAK_LIST_END);
}

static void no_block_is_lost_or_doubled(void) {
  put_all(0, ROOM / 2);
  put_all(ROOM / 2, ROOM / 2);
  hak_chain_t chain = hak_transfer_take(cls, ROOM, CHAIN_KEY, "malloc");
  void *taken[ROOM];
  CHECK(chain.count == ROOM && chain_blocks(chain, taken) == ROOM);
  for (uint32_t i = 0; i < ROOM; i++) {
    CHECK(is_among(taken[i], 0, ROOM));
    for (uint32_t k = 0; k < i; k++) {
      CHECK(taken[i] != taken[k]);
    }
  }
}

/* The rest stays the caller's, under its key. */
static void there_is_room_for_so_much(void) {
  hak_free_block_t *rest = put_chain(cls, chain_of(0, BLOCKS));
  CHECK(waiting() == ROOM && length_of(rest, CHAIN_KEY) == BLOCKS - ROOM);
  rest = put_chain(cls, rest);
  CHECK(waiting() == ROOM && length_of(rest, CHAIN_KEY) == BLOCKS - ROOM);
  CHECK(hak_transfer_take(cls, 5, OTHER_KEY, "malloc").count == 5);
  rest = put_chain(cls, rest);
  CHECK(waiting() == ROOM && length_of(rest, CHAIN_KEY) == BLOCKS - ROOM - 5);
  CHECK(put_chain(cls, HAK_LIST_END) == HAK_LIST_END);
}

static size_t free_in_slabs(void) {
  hak_slab_totals_t totals[HAK_BIN_COUNT];
  hak_slab_totals(totals);
  return totals[cls].free_blocks;
}

static void nothing_stays_that_nobody_takes(void) {
  size_t before = free_in_slabs();
  put_all(0, 20);
  CHECK(hak_transfer_take(cls, 1, OTHER_KEY, "malloc").count == 1);
  hak_transfer_flush(true); /* somebody took one */
  CHECK(waiting() == 19 && free_in_slabs() == before);
  hak_transfer_flush(true);
  CHECK(waiting() == 0 && free_in_slabs() == before + 19);
  put_all(20, 20);
  CHECK(hak_transfer_take(cls, 1, OTHER_KEY, "malloc").count == 1);
  hak_transfer_flush(false);
  CHECK(waiting() == 0 && free_in_slabs() == before + 38);
  hak_slab_check();
}

static void without_memory_all_is_the_callers(void) {
  const uint32_t largest = hak_class_of(16);
  hak_free_block_t *chain = HAK_LIST_END;
  void *block = hak_slab_take_one(largest);
  chain_push(&chain, block);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  while (hak_meta_alloc(1 << 10)) {
  }
  CHECK(put_chain(largest, chain) == chain && length_of(chain, CHAIN_KEY) == 1);
  system_allow();
  CHECK(put_chain(largest, chain) == HAK_LIST_END);
  hak_transfer_flush(false);
}

static void put_damaged(void) {
  hak_free_block_t *chain = chain_of(0, 10);
  ((hak_free_block_t *)blocks[5])->tag++;
  (void)put_chain(cls, chain);
}

static void put_handed_out(void) {
  hak_free_block_t *chain = chain_of(0, 10);
  hak_mark_taken(blocks[5]);
  (void)put_chain(cls, chain);
}

static void take_damaged(void) {
  put_all(0, 10);
  memset(blocks[5], 'x', sizeof(hak_free_block_t));
  (void)hak_transfer_take(cls, 10, OTHER_KEY, "malloc");
}

static void take_handed_out(void) {
  put_all(0, 10);
  memset(blocks[5], 'x', sizeof(hak_free_block_t));
  hak_mark_taken(blocks[5]);
  (void)hak_transfer_take(cls, 10, OTHER_KEY, "malloc");
}

static void flush_damaged(void) {
  put_all(0, 10);
  memset(blocks[5], 'x', sizeof(hak_free_block_t));
  hak_transfer_flush(false);
}

static void flush_what_lies_in_a_slab(void) {
  put_all(0, 10);
  hak_slab_return_one(blocks[5], "test");
  hak_transfer_flush(false);
}

/* Two threads passed it on, one after the other. */
static void flush_twice(void) {
  put_all(0, 10);
  put_all(5, 1);
  hak_transfer_flush(false);
}

static void verify_what_was_freed_again(void) {
  put_all(0, 10);
  hak_transfer_verify("test");
  chain_of(5, 1);
  hak_transfer_verify("test");
}

/* A handler that ends the process may have interrupted its owner. */
static void verify_waits_for_no_lock(void) {
  put_all(0, 10);
  hak_lock(hak_transfer_lock(cls));
  chain_of(5, 1);
  hak_transfer_verify("test");
  hak_unlock(hak_transfer_lock(cls));
}

static void damage_is_noticed(void) {
  static const char corrupted[] = "double free or corrupted free block", twice[] = "double free";
  child_is_stopped(put_damaged, "test", corrupted, blocks[5]);
  child_is_stopped(put_handed_out, "test", twice, blocks[5]);
  child_is_stopped(take_damaged, "malloc", corrupted, blocks[5]);
  child_is_stopped(take_handed_out, "malloc", twice, blocks[5]);
  child_is_stopped(flush_damaged, "free", corrupted, blocks[5]);
  child_is_stopped(flush_twice, "free", twice, blocks[5]);
  child_is_stopped(verify_what_was_freed_again, "test", corrupted, blocks[5]);
  child_is_stopped(flush_what_lies_in_a_slab, "free", twice, blocks[5]);
}

int main(void) {
  set_up();
  child_succeeds(what_is_put_can_be_taken);
  child_succeeds(no_block_is_lost_or_doubled);
  child_succeeds(there_is_room_for_so_much);
  child_succeeds(nothing_stays_that_nobody_takes);
  child_succeeds(without_memory_all_is_the_callers);
  child_succeeds(verify_waits_for_no_lock);
  damage_is_noticed();
  return 0;
}
