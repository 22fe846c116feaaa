/* Programs that repeatedly grow to the same size: each faults in at most two rounds. */
#include "child.h"
#include "retention.h"

enum { BLOCKS_MAX = 4096, ROUNDS = 12 };

/* What one round takes: `blocks` of so many chunks and slices. Its rise takes `rise_ms`; after the fall nobody calls
 * for `sleep_ms`. */
typedef struct Cycle {
  size_t blocks, chunks, slices;
  uint64_t rise_ms, sleep_ms;
  bool fills;       /* whole chunks: none has room beside the blocks that none of them fits into */
  bool slow_second; /* the second rise takes ten times as long: the machine was busy */
} Cycle;

static char *block[BLOCKS_MAX];
static const Cycle *cycle;

static size_t faulted; /* slices that were not resident when they were taken */

static void take(size_t i) {
  size_t before = fetched();
  block[i] = cycle->chunks > 0 ? chunks_reserve(cycle->chunks, cycle->slices) : slices_reserve(cycle->slices);
  faulted += fetched() - before;
}

/* Every 256th huge block goes in its turn: here none does. */
static void give(size_t i) {
  hak_huge_freed = 0;
  if (cycle->chunks > 0) {
    chunks_give(block[i], cycle->slices);
  } else {
    hak_arena_give(block[i], cycle->slices);
  }
}

/* A rise, with a tick at every tenth of it. */
static void rise(uint64_t ms) {
  for (size_t i = 0; i < cycle->blocks; i++) {
    take(i);
    if ((i + 1) * 10 / cycle->blocks > i * 10 / cycle->blocks) {
      pass_ms(ms / 10);
    }
  }
}

static void fall(void) {
  for (size_t i = cycle->blocks; i-- > 0;) {
    give(i);
  }
}

/* Returns the slices that faulted in the rounds after the second. */
static size_t faulted_late(void) {
  size_t late = 0;
  for (size_t round = 0; round < ROUNDS; round++) {
    late = round == 2 ? faulted : late;
    rise(cycle->slow_second && round == 1 ? 10 * cycle->rise_ms : cycle->rise_ms);
    fall();
    if (cycle->sleep_ms > 0) {
      pass_ms(cycle->sleep_ms);
    }
  }
  return faulted - late;
}

static void faults_twice_at_most(void) {
  set_policy((Policy){.warm_slabs = 16, .retain = 512, .most = NO_MOST}); /* as by default */
  size_t each = cycle->chunks * CHUNK + cycle->slices, peak = cycle->blocks * each,
         most = cycle->fills ? 0 : peak + each;
  size_t late = faulted_late();
  if (late > most) {
    fprintf(stderr, "%zu blocks of %zu chunks and %zu slices, %ju ms, then %ju ms: %zu slices of %zu\n", cycle->blocks,
            cycle->chunks, cycle->slices, (uintmax_t)cycle->rise_ms, (uintmax_t)cycle->sleep_ms, late, peak);
  }
  CHECK(late <= most);
  slices_add_up();
}

/* What no block fits into is free at the peak, too: in each window as much is idle, and comes back; so ten rounds fault
 * in as much as one and a block at most. From 2 MiB to 8 GiB; as fast as can be, and so slowly that a rise and a pause
 * fit in a window just so; with the machine asleep in between, and slow. */
static void cycles_fault_twice_at_most(void) {
  static const struct {
    size_t blocks, chunks, slices;
  } shapes[] = {{32, 0, 4},   {640, 0, 5},   {4096, 0, 40}, {100, 0, 128}, {1, 50, 0},  {25, 1, 0},
                {100, 3, 90}, {40, 12, 100}, {500, 2, 0},   {1000, 4, 0},  {5, 400, 3}, {1, 2000, 90}};
  static const uint64_t rises[] = {0, 10, 100, 400}, sleeps[] = {0, 300, 1500, 60000};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    for (size_t j = 0; j < 4 * 4 * 2; j++) {
      Cycle one = {shapes[i].blocks, shapes[i].chunks, shapes[i].slices, rises[j % 4], sleeps[j / 4 % 4], false,
                   j >= 16};
      one.fills = one.slices == 0 || (one.chunks == 0 && CHUNK % one.slices == 0);
      cycle = &one;
      child_succeeds(faults_twice_at_most);
    }
  }
}

/* At any place in a window: nothing goes while the program sleeps, or when it wakes. */
static void sleep_changes_nothing(void) {
  static const Cycle one = {.blocks = 60, .chunks = 1, .rise_ms = 130, .sleep_ms = 7777};
  cycle = &one;
  set_policy((Policy){.retain = 16, .most = NO_MOST});
  (void)faulted_late();
  size_t gone = purged(), dirty = dirty_slices();
  for (size_t round = 0; round < 100; round++) {
    pass_ms(one.sleep_ms);
    CHECK(purged() == gone && dirty_slices() == dirty);
    rise(one.rise_ms);
    fall();
  }
  CHECK(purged() == gone);
}

/* Heights that change from round to round: what stays is what was drawn, and of two windows' peak half as much more. */
static void phases_of_other_heights(void) {
  static const size_t heights[] = {40, 10, 40, 25, 5, 40};
  set_policy((Policy){.retain = 16, .most = NO_MOST});
  for (size_t round = 0; round < 60; round++) {
    Cycle one = {.blocks = heights[round % 6], .chunks = 1, .rise_ms = 100};
    size_t before = faulted;
    cycle = &one;
    rise(one.rise_ms);
    fall();
    CHECK(dirty_slices() <= 50 * CHUNK && (round < 12 || faulted == before));
  }
  slices_add_up();
}

int main(void) {
  cycles_fault_twice_at_most();
  child_succeeds(sleep_changes_nothing);
  child_succeeds(phases_of_other_heights);
  return 0;
}
