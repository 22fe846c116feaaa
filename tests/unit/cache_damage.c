/* Misuse that a thread's bins notice: blocks that are freed twice, at the call, at the next malloc or when they leave
 * the bin; and blocks that are written to while they are free. Each crime is committed in a child. */
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "setting.h"
#include "system.h"
#include "threads/cache.h"
#include "threads/policy.h"
#include "two_bins.h"

enum { BYTES = 1024 };

/* blocks[7] is the newest of eight that fill the bin, and an overflow returns 7 .. 4. */
static void set_up_damage(void) {
  set_variable("HAKMEM_CACHE_C5=8");
  open_both();
  for (size_t i = 0; i < 20; i++) {
    blocks[i] = bins_alloc(&mine, BYTES);
  }
  bins_drain(&mine, hak_class_of(BYTES));
  for (size_t i = 0; i < 8; i++) {
    bins_free(&mine, blocks[i]);
  }
  CHECK(bins_length(&mine, hak_class_of(BYTES)) == 8 && bins_room(&mine, hak_class_of(BYTES)) == 0);
  bins_free(&other, blocks[19]);
  CHECK(bins_length(&other, hak_class_of(BYTES)) == 1 && bins_room(&other, hak_class_of(BYTES)) > 0);
}

/* At this call: at the end of the process it would be noticed, too. */
static void free_again(hak_heap_t *heap, void *block) {
  bins_free(heap, block);
  _exit(0);
}

static void free_the_newest_again(void) {
  free_again(&mine, blocks[7]);
}

static void free_another_again(void) {
  free_again(&mine, blocks[5]); /* there is no room: it is looked at */
}

static void make_room(void) {
  CHECK(bins_alloc(&mine, BYTES) == blocks[7] && bins_alloc(&mine, BYTES) == blocks[6]);
}

static void free_the_newest_again_with_room(void) {
  make_room();
  free_again(&mine, blocks[5]);
}

/* a, b, a: both of it come to lie in the bin, and malloc finds the second. */
static void free_below_the_newest_with_room(void) {
  make_room();
  bins_free(&mine, blocks[4]);
  CHECK(bins_alloc(&mine, BYTES) == blocks[4] && bins_alloc(&mine, BYTES) == blocks[5]);
  (void)bins_alloc(&mine, BYTES);
}

/* The same, but its owner wrote to it before. */
static void use_and_free_below_the_newest(void) {
  make_room();
  bins_free(&mine, blocks[4]);
  memset(bins_alloc(&mine, BYTES), 'x', BYTES);
  CHECK(bins_alloc(&mine, BYTES) == blocks[5]);
  (void)bins_alloc(&mine, BYTES);
}

static void flush_what_is_there_twice(void) {
  make_room();
  bins_free(&mine, blocks[4]);
  hak_cache_flush(&mine, "some_function");
}

static void end_with_what_is_there_twice(void) {
  make_room();
  bins_free(&mine, blocks[4]);
  hak_cache_close(&mine, "some_function");
}

static void verify_what_is_there_twice(void) {
  hak_verify_cache(&mine, "test");
  make_room();
  bins_free(&mine, blocks[4]);
  hak_verify_cache(&mine, "some_function");
}

static void verify_one_of_many_twice(void) {
  enum { MANY = 100 };
  uint32_t cls = hak_class_of(BYTES);
  void *many[MANY];
  hak_policy_set_capacity(&mine, cls, MANY + 1);
  CHECK(hak_bin_reserve(&mine, cls, MANY + 1));
  for (size_t i = 0; i < MANY; i++) {
    many[i] = bins_alloc(&mine, BYTES);
  }
  for (size_t i = 0; i < MANY; i++) {
    bins_free(&mine, many[i]);
  }
  CHECK(bins_length(&mine, cls) > MANY / 2);
  hak_verify_cache(&mine, "test");
  bins_free(&mine, blocks[4]);
  hak_verify_cache(&mine, "some_function");
}

/* The block is freed again after it was passed on. */
static void verify_what_is_between_threads_too(void) {
  CHECK(hak_depot_put(hak_class_of(BYTES), (hak_free_block_t *const *)(void *)&blocks[5], 1) == 0);
  hak_verify_cache(&mine, "some_function");
}

static void overflow_with_what_is_there_twice(void) {
  make_room();
  bins_free(&mine, blocks[4]);
  bins_free(&mine, blocks[8]);
  free_again(&mine, blocks[9]); /* an overflow returns half, with both copies */
}

/* Another thread frees the block again, and its bin has no room. So all bins are searched for the block. */
static void free_by_another_thread_without_room(void) {
  hak_policy_set_capacity(&other, hak_class_of(BYTES), 1);
  free_again(&other, blocks[3]);
}

/* The other thread's bin has room, so the block lies in both bins. This is noticed when the bin is flushed. */
static void flush_what_another_thread_freed(void) {
  bins_free(&other, blocks[3]);
  CHECK(bins_length(&other, hak_class_of(BYTES)) == 2);
  hak_cache_flush(&other, "test");
  hak_cache_flush(&mine, "some_function");
}

/* This is noticed at the next malloc. */
static void take_what_another_thread_freed(void) {
  bins_free(&other, blocks[7]);
  CHECK(bins_alloc(&other, BYTES) == blocks[7]);
  (void)bins_alloc(&mine, BYTES);
}

/* The block is also in its slab. The copy in the bin is noticed when it is taken, or by the check. */
static void verify_what_lies_in_its_slab(void) {
  hak_free_block_t *again = blocks[5];
  hak_sweep_return_one(again, hak_class_of(BYTES), "test");
  hak_verify_cache(&mine, "some_function");
}

static void verify_over_damage(void) {
  memset(blocks[2], 'x', sizeof(hak_free_block_t));
  hak_verify_cache(&mine, "some_function");
}

static void verify_over_damaged_newest(void) {
  memset(blocks[7], 'x', sizeof(hak_free_block_t));
  hak_verify_cache(&mine, "some_function");
}

static void *small[3];

static void verify_over_damaged_outgoing(void) {
  hak_verify_cache(&mine, "test");
  memset(small[1], 'x', sizeof(hak_free_block_t));
  hak_verify_cache(&mine, "some_function");
}

static void flush_outgoing_twice(void) {
  bins_free(&mine, bins_alloc(&other, 32));
  hak_mark_taken(small[0]); /* another owner had it since */
  bins_free(&mine, small[0]);
  hak_cache_flush(&mine, "some_function");
}

/* The first block of a class that a thread frees. Nothing in the block itself shows the misuse. */
static char *lone;

static void free_what_lies_in_its_slab(void) {
  hak_sweep_return_one(lone, hak_class_of(500), "test");
  hak_mark_taken((hak_free_block_t *)(void *)lone);
  free_again(&mine, lone);
}

static char *never_handed_out(void) {
  const hak_slab_t *slab = hak_pagemap_slab(lone);
  CHECK(hak_slab_bump(slab) < slab->blocks);
  return slab->base + (size_t)hak_slab_bump(slab) * slab->block_bytes;
}

static void free_what_was_never_handed_out(void) {
  free_again(&mine, never_handed_out());
}

static void the_first_free_is_looked_at(void) {
  lone = bins_alloc(&other, 500);
  CHECK(bins_capacity(&mine, hak_class_of(500)) == 0);
  child_is_stopped(free_what_lies_in_its_slab, "free", "double free", lone);
  child_is_stopped(free_what_was_never_handed_out, "free", "invalid pointer", never_handed_out());
}

static void outgoing_damage_is_noticed(void) {
  for (size_t i = 0; i < 3; i++) {
    small[i] = bins_alloc(&other, 32);
  }
  for (size_t i = 0; i < 3; i++) {
    bins_free(&mine, small[i]);
  }
  CHECK(mine.info[hak_class_of(32)].remote_count == 3);
  child_is_stopped(verify_over_damaged_outgoing, "some_function", "double free or corrupted free block", small[1]);
  child_is_stopped(flush_outgoing_twice, "some_function", "double free", small[0]);
}

static void alloc_over_damage(void) {
  memset(blocks[7], 'x', sizeof(hak_free_block_t));
  (void)bins_alloc(&mine, BYTES);
}

static void alloc_over_damaged_tag(void) {
  ((hak_free_block_t *)blocks[7])->tag++;
  (void)bins_alloc(&mine, BYTES);
}

/* The word behind the tag keeps the last owner's contents, and is not checked. */
static void the_second_word_may_be_written(void) {
  ((hak_free_block_t *)blocks[7])->untouched++;
  CHECK(bins_alloc(&mine, BYTES) == blocks[7]);
}

static void check_over_wrong_count(void) {
  hak_bin_t *bin = &mine.bin[hak_class_of(BYTES)];
  atomic_store(&bin->top, bin->top + 1);
  hak_magazine_slots(&mine.info[hak_class_of(BYTES)].magazine)[8] = blocks[7];
  bin->head = (hak_free_block_t *)(void *)((char *)blocks[7] + HAK_BLOCK_MIN);
  hak_verify_check(&mine);
}

static void check_over_blocks_in_a_closed_bin(void) {
  mine.info[hak_class_of(BYTES)].buffers_remote = true;
  hak_verify_check(&mine);
}

static void check_over_damage(void) {
  ((hak_free_block_t *)blocks[2])->tag++;
  hak_verify_check(&mine);
}

static void damage_is_noticed(void) {
  static const char corrupted[] = "double free or corrupted free block", twice[] = "double free";
  child_is_stopped(free_the_newest_again, "free", twice, blocks[7]);
  child_is_stopped(free_another_again, "free", twice, blocks[5]);
  child_is_stopped(free_the_newest_again_with_room, "free", twice, blocks[5]);
  child_is_stopped(free_below_the_newest_with_room, "malloc", twice, blocks[4]);
  child_is_stopped(use_and_free_below_the_newest, "malloc", corrupted, blocks[4]);
  child_is_stopped(flush_what_is_there_twice, "some_function", twice, blocks[4]);
  child_is_stopped(end_with_what_is_there_twice, "some_function", twice, blocks[4]);
  child_is_stopped(verify_what_is_there_twice, "some_function", twice, blocks[4]);
  child_is_stopped(verify_one_of_many_twice, "some_function", twice, blocks[4]);
  child_is_stopped(verify_what_is_between_threads_too, "some_function", twice, blocks[5]);
  child_is_stopped(overflow_with_what_is_there_twice, "free", twice, blocks[4]);
  child_is_stopped(free_by_another_thread_without_room, "free", twice, blocks[3]);
  child_is_stopped(flush_what_another_thread_freed, "some_function", twice, blocks[3]);
  child_is_stopped(take_what_another_thread_freed, "malloc", twice, blocks[7]);
  child_is_stopped(verify_what_lies_in_its_slab, "some_function", twice, blocks[5]);
  child_is_stopped(verify_over_damage, "some_function", corrupted, blocks[2]);
  child_is_stopped(verify_over_damaged_newest, "some_function", corrupted, blocks[7]);
  child_is_stopped(alloc_over_damage, "malloc", corrupted, blocks[7]);
  child_is_stopped(alloc_over_damaged_tag, "malloc", corrupted, blocks[7]);
  child_succeeds(the_second_word_may_be_written);
  child_breaks_invariant(check_over_wrong_count);
  child_breaks_invariant(check_over_blocks_in_a_closed_bin);
  child_is_stopped(check_over_damage, "hak_check", corrupted, blocks[2]);
}

int main(void) {
  system_set_clock_ms(1000000); /* no bin becomes idle on a slow machine */
  set_up_damage();
  damage_is_noticed();
  outgoing_damage_is_noticed();
  the_first_free_is_looked_at();
  return 0;
}
