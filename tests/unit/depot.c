/* Blocks between threads: other threads can take the blocks that one puts, as many as there is room for. Blocks that no
 * thread takes do not stay. */
#include "threads/depot.h"

#include <pthread.h>
#include <string.h>

#include "blocks/blocks.h"
#include "check.h"
#include "child.h"
#include "inspect/stats.h"
#include "pages/arena.h"
#include "system.h"
#include "system/meta.h"

enum {
  BYTES = 1024,
  BLOCKS = 1000,
  MOST_BYTES = 256 << 10,
  MOST_RUN_BYTES = 1 << 20,
  MOST_BLOCKS = MOST_BYTES / HAK_BLOCK_MIN
};

static uint32_t cls;
static hak_free_block_t *blocks[BLOCKS], *taken[BLOCKS];

static size_t waiting(void) {
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    CHECK(c == cls || hak_depot_count(c) == 0);
  }
  return hak_depot_count(cls);
}

static void set_up(void) {
  hak_freed_start();
  cls = hak_class_of(BYTES);
  for (uint32_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_freed_take_one(cls);
    CHECK(blocks[i] != NULL);
    hak_mark_free(blocks[i]);
  }
}

static bool is_among(const hak_free_block_t *block, uint32_t from, uint32_t count) {
  for (uint32_t i = from; i < from + count; i++) {
    if (blocks[i] == block) {
      return true;
    }
  }
  return false;
}

static void put_all(uint32_t from, uint32_t count) {
  CHECK(hak_depot_put(cls, blocks + from, count) == 0);
}

/* Puts as many blocks as there is room for. */
static uint32_t fill(void) {
  uint32_t room = BLOCKS - hak_depot_put(cls, blocks, BLOCKS);
  CHECK(room > 0 && room < BLOCKS && room == waiting());
  return room;
}

static void what_is_put_can_be_taken(void) {
  CHECK(hak_depot_take(cls, taken, 1) == 0 && hak_depot_put(cls, blocks, 0) == 0 && waiting() == 0);
  put_all(0, 10);
  CHECK(waiting() == 10);
  CHECK(hak_depot_take(cls, taken, 4) == 4 && waiting() == 6);
  for (uint32_t i = 0; i < 4; i++) { /* the last goes first */
    CHECK(is_among(taken[i], 6, 4));
  }
  put_all(10, 3);
  CHECK(hak_depot_take(cls, taken, 3) == 3 && waiting() == 6);
  for (uint32_t i = 0; i < 3; i++) {
    CHECK(is_among(taken[i], 10, 3));
  }
  CHECK(hak_depot_take(cls, taken, BLOCKS) == 6 && waiting() == 0);
  CHECK(hak_depot_take(cls, taken, 1) == 0);
  CHECK(hak_depot_take(cls + 1, taken, 1) == 0);
}

static void it_is_known_what_lies_there(void) {
  put_all(0, 10);
  CHECK(hak_depot_take(cls, taken, 1) == 1 && taken[0] == blocks[9]);
  for (uint32_t i = 0; i < 20; i++) {
    CHECK(hak_depot_holds(blocks[i], cls) == (i < 9)); /* slots still hold blocks that were taken */
    CHECK(!hak_depot_holds(blocks[i], cls + 1));
  }
}

static void no_block_is_lost_or_doubled(void) {
  uint32_t room = fill();
  CHECK(hak_depot_take(cls, taken, room / 2) == room / 2);
  CHECK(hak_depot_take(cls, taken + room / 2, BLOCKS) == room - room / 2 && waiting() == 0);
  for (uint32_t i = 0; i < room; i++) {
    CHECK(is_among(taken[i], 0, BLOCKS));
    for (uint32_t k = 0; k < i; k++) {
      CHECK(taken[i] != taken[k]);
    }
  }
}

/* The rest, the first blocks, stays with the caller. */
static void there_is_room_for_so_much(void) {
  uint32_t room = fill(), rest = BLOCKS - room;
  CHECK(room * BYTES <= MOST_BYTES);
  for (uint32_t i = 0; i < BLOCKS; i++) {
    CHECK(hak_depot_holds(blocks[i], cls) == (i >= rest));
  }
  CHECK(hak_depot_put(cls, blocks, rest) == rest && waiting() == room);
  CHECK(hak_depot_take(cls, taken, 5) == 5);
  CHECK(hak_depot_put(cls, blocks, rest) == rest - 5 && waiting() == room);
}

/* There is room for at least one block of each large class. */
static void there_is_room_in_every_class(void) {
  static hak_free_block_t *many[2 * MOST_BLOCKS];
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    for (size_t i = 0; i < sizeof many / sizeof(void *); i++) {
      many[i] = blocks[0]; /* the depot does not touch the block itself */
    }
    uint32_t put = 2 * MOST_BLOCKS - hak_depot_put(c, many, 2 * MOST_BLOCKS);
    CHECK(put >= 1 && put <= MOST_BLOCKS &&
          (size_t)put * hak_class_sizes[c] <= (hak_class_is_run(c) ? MOST_RUN_BYTES : MOST_BYTES));
    CHECK(hak_depot_take(c, many, 2 * MOST_BLOCKS) == put && hak_depot_count(c) == 0);
  }
}

static size_t free_in_slabs(void) {
  hak_slab_totals_t totals[HAK_BIN_COUNT];
  hak_stats_slabs(totals);
  return totals[cls].free_blocks;
}

static void nothing_stays_that_nobody_takes(void) {
  size_t before = free_in_slabs();
  put_all(0, 20);
  CHECK(hak_depot_take(cls, taken, 1) == 1);
  for (int i = 0; i < 3; i++) {
    hak_depot_flush(true); /* a thread took a block */
    CHECK(hak_depot_is_taken(cls) && !hak_depot_is_taken(cls + 1));
    CHECK(waiting() == 19 && free_in_slabs() == before);
  }
  hak_depot_begin();
  CHECK(waiting() == 19 && !hak_depot_is_taken(cls));
  hak_depot_begin();
  CHECK(waiting() == 0 && free_in_slabs() == before + 19);
  put_all(20, 20);
  CHECK(hak_depot_take(cls, taken, 1) == 1);
  hak_depot_flush(false);
  CHECK(waiting() == 0 && free_in_slabs() == before + 38);
  put_all(40, 5);
  hak_depot_flush(true); /* blocks taken out to be returned do not count as taken */
  CHECK(waiting() == 0);
  (void)fill(); /* more than is returned at a time */
  hak_depot_flush(false);
  CHECK(waiting() == 0);
  hak_sweep_check();
}

static void use_up_memory(void) {
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  while (hak_meta_alloc(1)) {
  }
}

static void without_memory_all_is_the_callers(void) {
  use_up_memory();
  CHECK(hak_depot_put(cls, blocks, 3) == 3 && waiting() == 0);
  CHECK(hak_depot_take(cls, taken, 3) == 0 && !hak_depot_holds(blocks[0], cls));
  hak_depot_verify("test");
  hak_depot_flush(false);
  system_allow();
  CHECK(hak_depot_put(cls, blocks, 3) == 0 && waiting() == 3);
}

/* Classes that pass on few blocks touch few pages of arrays. Without memory for a larger array, the present one
 * fills. */
static void the_array_grows_with_the_blocks(void) {
  put_all(0, 10);
  CHECK(hak_magazine_size(&hak_depots[cls].magazine) == 16);
  put_all(10, 100);
  CHECK(hak_magazine_size(&hak_depots[cls].magazine) == 128 && waiting() == 110);
  use_up_memory();
  CHECK(hak_depot_put(cls, blocks + 110, 30) == 12 && waiting() == 128);
  for (uint32_t i = 0; i < 140; i++) {
    CHECK(hak_depot_holds(blocks[i], cls) == (i < 110 || i >= 122));
  }
}

/* Two threads may make the depot's array at once. One array stays; the other is recycled. */
static void *put_one(void *block) {
  CHECK(hak_depot_put(cls, (hak_free_block_t *const[]){block}, 1) == 0);
  return NULL;
}

static void put_in_another_thread(hak_free_block_t *block) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, put_one, block) == 0 && pthread_join(thread, NULL) == 0);
}

static void another_thread_comes_first(void) {
  put_in_another_thread(blocks[0]);
}

static void two_threads_begin_at_once(void) {
  hak_magazine_t spare;
  system_during(SYSTEM_MMAP, another_thread_comes_first);
  while (!system_was_during()) { /* until making the array needs a mapping */
    CHECK(hak_depot_count(cls) == 0);
    put_all(1, 1);
    if (!system_was_during()) {
      CHECK(hak_depot_take(cls, taken, 1) == 1);
      hak_depots[cls].magazine = HAK_MAGAZINE_NONE;
    }
  }
  CHECK(waiting() == 2);
  size_t meta = hak_meta_bytes();
  CHECK(hak_magazine_make(&spare, hak_depots[cls].magazine.size) && hak_meta_bytes() == meta);
  CHECK(hak_depot_take(cls, taken, 3) == 2 && taken[0] != taken[1]);
  CHECK(is_among(taken[0], 0, 2) && is_among(taken[1], 0, 2));
}

/* Two threads put blocks while the shard is locked. The first opens another shard and waits; the second uses the new
 * shard and need not wait. */
static void meet(void) {
  pthread_t first;
  CHECK(hak_depots_open() == HAK_CLASS_COUNT);
  put_all(5, 5);
  CHECK(hak_depots_open() == HAK_CLASS_COUNT);
  hak_lock(&hak_depots[cls].lock);
  CHECK(pthread_create(&first, NULL, put_one, blocks[0]) == 0);
  while (hak_depots_open() == HAK_CLASS_COUNT) {
    hak_os_yield();
  }
  put_in_another_thread(blocks[1]);
  CHECK(hak_depot_count(cls) == 6);
  hak_unlock(&hak_depots[cls].lock);
  CHECK(pthread_join(first, NULL) == 0 && waiting() == 7 && hak_depots_open() == 2 * HAK_CLASS_COUNT);
}

static void *take_one(void *where) {
  CHECK(hak_depot_take(cls, where, 1) == 1);
  return NULL;
}

static void who_meets_another_takes_another_lane(void) {
  pthread_t thread;
  meet();
  for (uint32_t i = 0; i < 20; i++) {
    CHECK(hak_depot_holds(blocks[i], cls) == (i < 2 || (i >= 5 && i < 10)));
  }
  hak_lock(&hak_depots[cls].lock);
  CHECK(pthread_create(&thread, NULL, take_one, taken) == 0 && pthread_join(thread, NULL) == 0);
  hak_unlock(&hak_depots[cls].lock);
  CHECK(taken[0] == blocks[1] && waiting() == 6);
  CHECK(hak_depot_take(cls, taken, BLOCKS) == 6 && waiting() == 0);
}

static void the_slabs_get_back_what_all_lanes_hold(void) {
  size_t before = free_in_slabs();
  meet();
  hak_depot_flush(false);
  CHECK(waiting() == 0 && free_in_slabs() == before + 7);
}

static void verify_damaged_in_another_lane(void) {
  meet();
  memset(blocks[1], 'x', sizeof(hak_free_block_t));
  hak_depot_verify("test");
}

/* The number of shards is bounded. */
static void there_are_so_many_lanes(void) {
  pthread_t threads[2 * HAK_DEPOT_SHARDS];
  for (uint32_t i = 0; i < HAK_DEPOT_SHARDS; i++) {
    hak_lock(&hak_depots[i * HAK_CLASS_COUNT + cls].lock);
  }
  for (uint32_t i = 0; i < 2 * HAK_DEPOT_SHARDS; i++) {
    CHECK(pthread_create(&threads[i], NULL, put_one, blocks[i]) == 0);
  }
  while (hak_depots_open() < HAK_DEPOTS) {
    hak_os_yield();
  }
  for (uint32_t i = 0; i < HAK_DEPOT_SHARDS; i++) {
    hak_unlock(&hak_depots[i * HAK_CLASS_COUNT + cls].lock);
  }
  for (uint32_t i = 0; i < 2 * HAK_DEPOT_SHARDS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(waiting() == 2 * HAK_DEPOT_SHARDS && hak_depots_open() == HAK_DEPOTS);
}

static void verify_damaged(void) {
  put_all(0, 10);
  hak_depot_verify("test");
  memset(blocks[5], 'x', sizeof(hak_free_block_t));
  hak_depot_verify("test");
}

static void verify_handed_out(void) {
  put_all(0, 10);
  hak_mark_taken(blocks[5]);
  hak_depot_verify("test");
}

static void flush_what_lies_in_a_slab(void) {
  put_all(0, 10);
  hak_sweep_return_one(blocks[5], cls, "test");
  hak_depot_flush(false);
}

/* Two threads passed the same block on, one after the other. */
static void verify_twice(void) {
  put_all(0, 10);
  put_all(5, 1);
  hak_depot_verify("test");
}

static void flush_twice(void) {
  put_all(0, 10);
  put_all(5, 1);
  hak_depot_flush(false);
}

/* The check waits for no lock: a handler that ends the process may have interrupted the owner of the lock. */
static void verify_waits_for_no_lock(void) {
  put_all(0, 10);
  hak_lock(&hak_depots[cls].lock);
  hak_mark_taken(blocks[5]);
  hak_depot_verify("test");
  hak_unlock(&hak_depots[cls].lock);
  hak_mark_free(blocks[5]); /* the end of the process looks as well */
}

static void verify_leaves_all_as_it_was(void) {
  put_all(0, 10);
  for (int round = 0; round < 3; round++) {
    hak_depot_verify("test");
    for (uint32_t i = 0; i < 10; i++) {
      CHECK(hak_is_marked_free(blocks[i]));
    }
  }
}

/* The check ignores blocks that were taken, although slots still hold them. */
static void verify_looks_at_what_is_there(void) {
  put_all(0, 10);
  CHECK(hak_depot_take(cls, taken, 2) == 2);
  hak_mark_taken(taken[0]);
  memset(taken[1], 'x', BYTES);
  hak_depot_verify("test");
}

static void damage_is_noticed(void) {
  static const char corrupted[] = "double free or corrupted free block", twice[] = "double free";
  child_is_stopped(verify_damaged, "test", corrupted, blocks[5]);
  child_is_stopped(verify_damaged_in_another_lane, "test", corrupted, blocks[1]);
  child_is_stopped(verify_handed_out, "test", twice, blocks[5]);
  child_is_stopped(verify_twice, "test", twice, blocks[5]);
  child_is_stopped(flush_twice, "free", twice, blocks[5]);
  child_is_stopped(flush_what_lies_in_a_slab, "free", twice, blocks[5]);
}

int main(void) {
  set_up();
  child_succeeds(what_is_put_can_be_taken);
  child_succeeds(it_is_known_what_lies_there);
  child_succeeds(no_block_is_lost_or_doubled);
  child_succeeds(there_is_room_for_so_much);
  child_succeeds(there_is_room_in_every_class);
  child_succeeds(nothing_stays_that_nobody_takes);
  child_succeeds(without_memory_all_is_the_callers);
  child_succeeds(the_array_grows_with_the_blocks);
  child_succeeds(two_threads_begin_at_once);
  child_succeeds(who_meets_another_takes_another_lane);
  child_succeeds(the_slabs_get_back_what_all_lanes_hold);
  child_succeeds(there_are_so_many_lanes);
  child_succeeds(verify_waits_for_no_lock);
  child_succeeds(verify_leaves_all_as_it_was);
  child_succeeds(verify_looks_at_what_is_there);
  damage_is_noticed();
  return 0;
}
