/* Scenarios in which two or three threads use the same slab. */
#include "scenarios.h"

#include "program.h"

enum { HALF = 32768, QUARTER = 16384, EIGHTH = 8192, TWO_WORDS = 512 }; /* bytes of a block */

static Holder *me(void) {
  return &holders[explore_thread()];
}

static uint32_t class_of(size_t bytes) {
  return hak_class_of(bytes);
}

/* In the end every count is right, and when all blocks are returned, all slabs are, too. */
static void all_comes_back(void) {
  size_t current = 0;
  for (int i = 0; i < EXPLORE_THREADS; i++) {
    current += holders[i].current != NULL;
  }
  world_check(current, true);
  for (int i = 0; i < EXPLORE_THREADS; i++) {
    holder_drop(&holders[i]);
    holder_give(&holders[i], holders[i].count);
  }
  world_check(0, true);
  EXPECT(world_used() == 0);
}

static void all_came_back(void) {
  EXPECT(world_used() == 0);
  world_check(0, true);
}

static void drop(void) {
  holder_drop(me());
}
static void give_1(void) {
  holder_give(me(), 1);
}
static void give_2(void) {
  holder_give(me(), 2);
}
static void give_1_and_1(void) {
  holder_give(me(), 1);
  holder_give(me(), 1);
}
static void take_2_and_1(void) {
  holder_take(me(), 2);
  holder_take(me(), 1);
}
static void take_1_and_drop(void) {
  holder_take(me(), 1);
  holder_drop(me());
}

/* The first thread owns the slab; the others free. */
static void current_and_blocks_out(void) {
  everything_out(class_of(QUARTER), 0, 2, 1);
}
/* One word has two free blocks, so a thread that wants one puts the other back. */
static void current_and_blocks_in(void) {
  everything_out(class_of(QUARTER), 2, 1, 1);
  holder_give(&holders[0], 2);
}
static void half_out(void) {
  everything_out(class_of(HALF), 0, 1, 1);
}
static void half_detached(void) {
  half_out();
  holder_hand(&holders[2], &holders[0], 1);
  holder_drop(&holders[0]);
}
static void quarter_detached(void) {
  everything_out(class_of(QUARTER), 2, 1, 0);
  holder_drop(&holders[0]);
}
static void use_half(void) {
  holder_acquire(me(), class_of(HALF));
  holder_take(me(), 2);
  holder_give(me(), 1);
  holder_drop(me());
}
static void use_quarter(void) {
  holder_acquire(me(), class_of(QUARTER));
  holder_take(me(), 1);
  holder_drop(me());
}
static void without_cache(void) {
  if (holder_take_one(me(), class_of(HALF))) {
    holder_give_one(me());
  }
}
static void nothing_taken(void) {
  world_begin();
}

static void two_words_detached(void) {
  enum { BEFORE = 62, SHARE = 2 };
  uint32_t cls = class_of(TWO_WORDS);
  everything_out(cls, 0, 0, 0);
  holder_drop(&holders[0]);
  Holder *all = &holders[EXPLORE_THREADS - 1];
  for (uint32_t i = 0; i < SHARE; i++) { /* each of two holders has one block of each word */
    holders[i].blocks[0] = all->blocks[BEFORE + i];
    holders[i].blocks[1] = all->blocks[BEFORE + SHARE + i];
    holders[i].count = 2;
  }
  for (uint32_t i = BEFORE; i + 2 * SHARE < all->count; i++) {
    all->blocks[i] = all->blocks[i + 2 * SHARE];
  }
  all->count -= 2 * SHARE;
}
static void use_two_words(void) {
  holder_acquire(me(), class_of(TWO_WORDS));
  holder_take(me(), 3);
  holder_drop(me());
}

/* Seven of eight blocks are free, so the slab is worth a sweep. */
static void eighth_sparse(void) {
  everything_out(class_of(EIGHTH), 7, 1, 0);
  holder_give(&holders[0], 7);
  holder_drop(&holders[0]);
}
static void sweep(void) {
  hak_sweep_sparse();
}
/* Two blocks are in use, and one of them comes back. */
static void eighth_nearly_sparse(void) {
  everything_out(class_of(EIGHTH), 6, 1, 1);
  holder_give(&holders[0], 6);
  holder_drop(&holders[0]);
}
static void use_eighth(void) {
  holder_acquire(me(), class_of(EIGHTH));
  holder_take(me(), 8);
  holder_drop(me());
}

/* Two threads free the same block while a third takes others of its word. The last block stays in use. */
static void same_block_twice(void) {
  everything_out(class_of(QUARTER), 2, 1, 0);
  holder_hand(&holders[0], &holders[2], 1);
  holder_hand(&holders[1], &holders[0], 1);
  holder_give(&holders[0], 2);
  holders[1].blocks[0] = holders[2].blocks[0];
  holders[1].count = holders[2].count;
}
static void give_one(void) {
  holder_give_one(me());
}
static void take_give_drop(void) {
  holder_take(me(), 1);
  holder_give(me(), me()->count);
  holder_drop(me());
}
/* Take all blocks that are left: none is handed out twice. */
static void take_the_rest(void) {
  Holder *last = &holders[EXPLORE_THREADS - 1];
  while (holder_take_one(last, class_of(QUARTER))) {
  }
}

const Scenario slab_scenarios[] = {
    {.name = "take_and_returns",
     .setup = current_and_blocks_out,
     .threads = {take_2_and_1, give_1_and_1, give_1},
     .finish = all_comes_back},
    {.name = "take_puts_back",
     .setup = current_and_blocks_in,
     .threads = {take_1_and_drop, give_1, give_1},
     .finish = all_comes_back},
    {.name = "returns_list_the_slab",
     .setup = quarter_detached,
     .threads = {give_1_and_1, give_1, use_quarter},
     .finish = all_comes_back},
    {.name = "last_returns_and_drop", .setup = half_out, .threads = {drop, give_1, give_1}, .finish = all_came_back},
    {.name = "release_and_other_class",
     .setup = half_detached,
     .threads = {give_1, give_1, use_quarter},
     .finish = all_comes_back},
    {.name = "release_and_same_class",
     .setup = half_detached,
     .threads = {give_1, give_1, use_half},
     .finish = all_comes_back},
    {.name = "without_cache",
     .setup = nothing_taken,
     .threads = {without_cache, without_cache},
     .finish = all_came_back},
    {.name = "two_words",
     .setup = two_words_detached,
     .threads = {give_2, give_2, use_two_words},
     .finish = all_comes_back},
    {.name = "sweep_and_return", .setup = eighth_sparse, .threads = {sweep, give_1}, .finish = all_came_back},
    {.name = "sweep_and_take",
     .setup = eighth_sparse,
     .threads = {sweep, give_1, use_eighth},
     .finish = all_comes_back},
    {.name = "becomes_sparse",
     .setup = eighth_nearly_sparse,
     .threads = {sweep, give_1, use_eighth},
     .finish = all_comes_back},
    {.name = "becomes_sparse_and_empty",
     .setup = eighth_nearly_sparse,
     .threads = {sweep, give_1, give_1},
     .finish = all_comes_back},
    {.name = "racing_double_free",
     .setup = same_block_twice,
     .threads = {take_give_drop, give_one, give_one},
     .finish = take_the_rest,
     .crime = true},
    {.name = "racing_double_free_of_several",
     .setup = same_block_twice,
     .threads = {take_give_drop, give_1, give_1},
     .finish = take_the_rest,
     .crime = true},
    {.name = NULL},
};
