/* Programs that repeatedly grow to the same size: each faults in at most two rounds. */
#include "child.h"
#include "retention.h"

enum { BLOCKS_MAX = 4096, ROUNDS = 8 };

/* One round takes `blocks` blocks of so many chunks and slices. Its rise takes `rise_ms`. After the fall, there is no
 * call for `sleep_ms`. */
typedef struct Cycle {
  size_t blocks, chunks, slices;
  uint64_t rise_ms, sleep_ms;
  bool fills;       /* the blocks fill whole chunks, with no unusable room beside them */
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

/* Normally every 256th freed huge block is purged; here none is. */
static void give(size_t i) {
  hak_huge_freed = 0;
  if (cycle->chunks > 0) {
    chunks_give(block[i], cycle->slices);
  } else {
    hak_arena_give(block[i], cycle->slices);
  }
}

/* Takes all blocks, with ten ticks over the time of the rise. */
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

/* Room into which no block fits is free even at the peak. It becomes idle in each window, and is faulted in again. So
 * six rounds fault in at most as much as this room and one block. The cycles use 2 MiB to 8 GiB. Some are as fast as
 * possible; in others, a rise and a pause just fit into a window. The machine may sleep in between, or be slow. */
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

/* The sleep may begin at any point of a window. Nothing is purged while the program sleeps, or when it wakes. */
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

/* The peak changes from round to round. The retained memory is bounded by past demand, and by 1.5 times the peak of two
 * windows. */
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
