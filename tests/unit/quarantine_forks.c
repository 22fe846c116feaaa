/* A fork at any moment of another thread's malloc or free in the hardened profile: in the child a block may be lost,
 * but no structure names one that is live, or that is in another place too. Each operation is stopped before each
 * instruction. If the state has changed since the last one, a child closes the thread's heap and allocates. */
#include "child.h"
#include "hardened/quarantine.h"
#include "inspect/records.h"
#include "pages/arena.h"
#include "pages/retain.h"
#include "system.h"
#include "system/meta.h"

enum { BLOCKS = 300, FRESH = 2 * BLOCKS };

#include "forked.h"

static bool holds_a_lock(void) {
  hak_lock_t *const locks[] = {&hak_meta_lock, &hak_arena.lock, &hak_slab_classes[cls].lock, &hak_heaps_lock,
                               &hak_ended_lock};
  return holds_any(locks, sizeof locks / sizeof(void *));
}

/* Each is live, and its seal was not taken for another's. */
static void all_blocks_can_be_freed(size_t count) {
  for (size_t i = 0; i < count; i++) {
    bins_free(&other, all[i]);
  }
}

static void take_over(void) {
  hak_cache_close(&mine, NULL);
  all_blocks_can_be_freed(no_block_is_there_twice());
  _exit(0);
}

/* A hash of all data that says where a block is: the heap's structures, the slabs, and both ends of the blocks. */
static uint64_t state(void) {
  const hak_waiting_t *waiting = &mine.quarantine->waiting[cls];
  uint64_t hash = hash_of(1, waiting, sizeof *waiting);
  hash = hash_of(hash, hak_magazine_slots(&waiting->array), hak_magazine_size(&waiting->array) * sizeof(void *));
  hash = hash_of_slabs(hash);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (blocks[i]) {
      const uint64_t ends[] = {*(const uint64_t *)blocks[i], hak_seal_load(blocks[i], hak_class_sizes[cls])};
      hash = hash_of(hash, ends, sizeof ends);
    }
  }
  return hash;
}

static void visit(unsigned step) {
  fork_if_changed(step);
}

static void begin(size_t size) {
  bytes = size;
  cls = hak_class_of(size + HAK_SEAL_BYTES);
  open_both();
  hak_heap = &mine;
  CHECK(hak_hard.on && hak_quarantine_open(&mine) && hak_quarantine_open(&other));
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = bins_alloc(&mine, bytes);
    live[i] = true;
  }
}

/* The quarantine fills: blocks wait in random places, then in order, then they are ready. Then some are returned. */
static void frees(size_t size) {
  enum { EVERY = 13 };
  begin(size);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i % EVERY == 0) {
      stepped_free(i, 2);
    } else {
      give(i);
    }
  }
}

static void frees_of_small_blocks(void) {
  frees(40);
}

static void frees_of_larger_blocks(void) {
  frees(1000);
}

static void takes_and_refills(void) {
  begin(1000);
  for (size_t i = 0; i < 70; i++) {
    give(i);
  }
  for (size_t i = 0; i < 30; i++) {
    stepped_malloc(i, 2);
  }
}

static void flush_and_end(void) {
  begin(1000);
  for (size_t i = 0; i < 70; i++) {
    give(i);
  }
  stepped(act_flush, NULL, 10);
  for (size_t i = 70; i < 140; i++) {
    give(i);
  }
  stepped(act_close, NULL, 10);
}

/* The child cannot know whether a block without the seal of a free block is live. */
static void a_block_without_its_seal_is_left_out(void) {
  begin(1000);
  for (size_t i = 0; i < 20; i++) {
    give(i);
  }
  hak_seal_put(blocks[10], hak_class_sizes[cls], hak_seal_base(blocks[10]), (uint32_t)bytes, false);
  live[10] = true;
  hak_cache_close(&mine, NULL);
  all_blocks_can_be_freed(no_block_is_there_twice());
}

int main(void) {
  system_set_clock_ms(1000000);
  child_succeeds(frees_of_small_blocks);
  child_succeeds(frees_of_larger_blocks);
  child_succeeds(takes_and_refills);
  child_succeeds(flush_and_end);
  child_succeeds(a_block_without_its_seal_is_left_out);
  return 0;
}
