/* A thread forks at any moment of the others' work. In the child, the forking thread goes on alone. */
#include "program.h"
#include "scenarios.h"

enum { HALF = 32768, QUARTER = 16384, EIGHTH = 8192 }; /* bytes of a block */

static Holder *me(void) {
  return &holders[explore_thread()];
}

/* Acts as the handlers of process.c and heap.c: takes the locks, then adopts the slabs of threads that are gone. */
static void fork_and_adopt(void) {
  world_before_fork();
  explore_fork();
  world_after_fork();
  for (int i = 0; i < EXPLORE_THREADS; i++) {
    if (&holders[i] != me()) {
      holder_drop(&holders[i]);
    }
  }
}

static void fork_in_parent(void) {
  world_before_fork();
  world_after_fork();
  holder_give(me(), 1);
}

/* Takes all blocks that are left, of the sizes in use and of another one, and returns them. */
static void all_works(void) {
  static const size_t sizes[] = {EIGHTH, QUARTER, HALF};
  Holder *mine = &holders[0];
  world_check(0, false);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint32_t had = mine->count;
    while (holder_take_one(mine, hak_class_of(sizes[i]))) {
    }
    world_check(0, false);
    while (mine->count > had) {
      holder_give_one(mine);
    }
    world_check(0, false);
  }
}

static void all_comes_back(void) {
  for (int i = 0; i < EXPLORE_THREADS; i++) {
    holder_drop(&holders[i]);
    holder_give(&holders[i], holders[i].count);
  }
  world_check(0, true);
  EXPECT(world_used() == 0);
}

static void current_of_second(uint32_t cls, uint32_t first, uint32_t second, uint32_t third) {
  everything_out(cls, first, second, third);
  holders[1].current = holders[0].current;
  holders[0].current = NULL;
}

static void taking(void) {
  current_of_second(hak_class_of(QUARTER), 0, 2, 1);
  holder_give(&holders[1], 2);
}
static void take_1_and_2(void) {
  holder_take(me(), 1);
  holder_take(me(), 2);
}
static void untouched(void) {
  world_begin();
}
static void take_new_and_drop(void) {
  holder_acquire(me(), hak_class_of(QUARTER));
  holder_take(me(), 2);
  holder_take(me(), 2);
  holder_drop(me());
}
static void returning(void) {
  current_of_second(hak_class_of(QUARTER), 0, 2, 2);
  holder_drop(&holders[1]);
}
static void dropping(void) {
  current_of_second(hak_class_of(HALF), 0, 1, 1);
}
static void give_all_and_drop(void) {
  holder_give(me(), me()->count);
  holder_drop(me());
}
static void give_all(void) {
  holder_give(me(), me()->count);
}
static void use_quarter(void) {
  holder_acquire(me(), hak_class_of(QUARTER));
  holder_take(me(), 1);
  holder_drop(me());
}
static void sweeping(void) {
  everything_out(hak_class_of(EIGHTH), 0, 7, 1);
  holder_give(&holders[1], 7);
  holder_drop(&holders[0]);
}
static void sweep(void) {
  hak_sweep_sparse();
}
static void in_parent(void) {
  everything_out(hak_class_of(QUARTER), 1, 2, 1);
  holders[1].current = holders[0].current;
  holders[0].current = NULL;
}
static void drop_and_give(void) {
  holder_drop(me());
  holder_give(me(), me()->count);
}

const Scenario fork_scenarios[] = {
    {.name = "fork_in_take", .setup = taking, .threads = {fork_and_adopt, take_1_and_2, give_all}, .finish = all_works},
    {.name = "fork_in_take_new",
     .setup = untouched,
     .threads = {fork_and_adopt, take_new_and_drop},
     .finish = all_works},
    {.name = "fork_in_return",
     .setup = returning,
     .threads = {fork_and_adopt, give_all, give_all},
     .finish = all_works},
    {.name = "fork_in_drop",
     .setup = dropping,
     .threads = {fork_and_adopt, give_all_and_drop, give_all},
     .finish = all_works},
    {.name = "fork_in_acquire",
     .setup = returning,
     .threads = {fork_and_adopt, use_quarter, give_all},
     .finish = all_works},
    {.name = "fork_in_sweep", .setup = sweeping, .threads = {fork_and_adopt, sweep, give_all}, .finish = all_works},
    {.name = "fork_in_parent",
     .setup = in_parent,
     .threads = {fork_in_parent, drop_and_give, give_all},
     .finish = all_comes_back},
    {.name = NULL},
};
