/* Unused blocks in a thread's bins: they are returned when a refill or overflow checks the clock. */
#include "child.h"
#include "pages/arena.h"
#include "setting.h"
#include "system.h"
#include "threads/cache.h"
#include "two_bins.h"

enum { BYTES = 1024 };

/* Each malloc or free here is a refill or overflow, since C7 caches nothing. */
static void make_events(size_t count) {
  for (size_t i = 0; i < count; i++) {
    void *block = bins_alloc(&mine, 4096);
    bins_free(&mine, block);
  }
}

static void idle_bins_are_returned(void) {
  enum { EVENTS = 2000 };
  const uint32_t cls = hak_class_of(BYTES);
  set_variable("HAKMEM_CACHE_C7=0");
  open_both();
  for (int round = 0; round < 5; round++) {
    alloc_many(&mine, BYTES, 300);
    free_many(&mine, 300);
  }
  uint32_t grown = bins_capacity(&mine, cls);
  make_events(EVENTS);
  make_events(EVENTS);
  CHECK(!bins_empty(&mine, cls)); /* the clock stands still */
  for (int hour = 0; hour < 3; hour++) {
    system_advance_clock_ms(3600000);
    bins_free(&mine, bins_alloc(&mine, BYTES)); /* an even number of steps, but the bin is not idle */
    (void)bins_alloc(&mine, BYTES);
    make_events(EVENTS);
    CHECK(!bins_empty(&mine, cls) || hour == 0);
  }
  for (int hour = 0; hour < 2; hour++) {
    system_advance_clock_ms(3600000);
    make_events(EVENTS);
  }
  CHECK(bins_empty(&mine, cls) && !mine.info[cls].current);
  CHECK(bins_capacity(&mine, cls) < grown);
  hak_verify_check(&mine);
}

/* Idle classes of a thread take room from those that it uses, until it has scavenged twice. */
static void an_idle_class_makes_room(void) {
  enum { SMALL = 1024, OTHER = 2048, LOOK_MS = 250 };
  const uint32_t small = hak_class_of(SMALL), cls = hak_class_of(OTHER);
  open_both();
  for (int round = 0; round < 10; round++) {
    alloc_many(&mine, SMALL, 2000);
    free_many(&mine, 2000);
  }
  CHECK(mine.budget_bytes > 1 << 20); /* more than a thread with nothing in use may have */
  for (int look = 0; look < 4; look++) {
    for (int round = 0; round < 40; round++) {
      alloc_many(&mine, OTHER, 100);
      free_many(&mine, 100);
    }
    CHECK(bins_empty(&mine, small) == (look > 1) && (bins_capacity(&mine, cls) >= 100) == (look > 1));
    system_advance_clock_ms(LOOK_MS);
  }
  hak_verify_check(&mine);
}

/* In a bin in use, the blocks below its lowest level are not needed. Each scavenge returns half of them. They come
 * back, with their room, when they are needed again. */
static void what_a_used_bin_does_not_need_is_returned(void) {
  enum { MANY = 256, FEW = 16 };
  const uint32_t cls = hak_class_of(BYTES);
  open_both();
  for (int round = 0; round < 10; round++) {
    alloc_many(&mine, BYTES, MANY);
    free_many(&mine, MANY);
  }
  uint32_t had = bins_length(&mine, cls), capacity = bins_capacity(&mine, cls);
  CHECK(had == MANY);
  for (int look = 0; look < 6; look++) {
    alloc_many(&mine, BYTES, FEW);
    for (size_t i = 0; i < FEW; i += 2) { /* in another order */
      bins_free(&mine, blocks[i + 1]);
      bins_free(&mine, blocks[i]);
    }
    system_advance_clock_ms(250);
    hak_cache_scavenge_if_due(&mine);
    hak_verify_check(&mine);
    bins_budgets_add_up(&mine);
    uint32_t has = bins_length(&mine, cls);
    CHECK(look == 0 || has == (had - had / 2 > FEW ? had - had / 2 : had));
    CHECK(bins_capacity(&mine, cls) == capacity - (MANY - has));
    had = has;
  }
  CHECK(had == 2 * FEW);
  alloc_many(&mine, BYTES, MANY);
  free_many(&mine, MANY);
  CHECK(bins_length(&mine, cls) == MANY);
}

/* A thread that only exchanges blocks with slabs also gives back unused memory, including blocks in the depot. */
static void idle_memory_decays(void) {
  set_variable("HAKMEM_CACHE_C7=0");
  set_number("WARM_POOL_SIZE", 0);
  set_number("RETAIN", (int64_t)1 << 39);
  open_both();
  CHECK(bins_alloc(&mine, 4096) != NULL); /* keeps the slab of the events */
  alloc_many(&mine, HAK_SMALL_MAX, 10);
  free_many(&mine, 10);
  hak_cache_flush(&mine, "test");
  CHECK(hak_arena_totals().dirty_slices > 0);
  for (int hour = 0; hour < 6; hour++) {
    system_advance_clock_ms(3600000);
    make_events(1000);
  }
  CHECK(hak_arena_totals().dirty_slices == 0);
  CHECK(hak_retain_used_slices() == HAK_SLAB_SLICES);
  hak_arena_check();
}

/* So does a thread that reaches the slabs only a few times a second. It checks the clock before 64 such events, and
 * each time purges one step of the memory that was idle for a window. */
static void idle_memory_decays_beside_a_quiet_thread(void) {
  enum { CHUNKS = 30, EVENTS = 4, STEP_CHUNKS = 2, SCAVENGE_MS = 1000, LOOKS = 16 };
  bool zeroed;
  set_variable("HAKMEM_CACHE_C7=0");
  set_number("WARM_POOL_SIZE", 0);
  set_number("RETAIN", (int64_t)1 << 39);
  open_both();
  CHECK(bins_alloc(&mine, 4096) != NULL);
  hak_huge_chunks_give(hak_huge_chunks_take(CHUNKS, 0, 1, false, &zeroed));
  for (int look = 0; look < LOOKS; look++) {
    size_t before = hak_arena_totals().dirty_slices;
    system_advance_clock_ms(SCAVENGE_MS);
    make_events(EVENTS / 2);
    size_t most = (size_t)(EVENTS + 1) * STEP_CHUNKS * HAK_CHUNK_SLICES; /* one more for the check of the clock */
    CHECK(before - hak_arena_totals().dirty_slices <= most);
  }
  CHECK(hak_arena_totals().dirty_slices == 0);
  hak_arena_check();
}

int main(void) {
  system_set_clock_ms(1000000);
  child_succeeds(idle_bins_are_returned);
  child_succeeds(an_idle_class_makes_room);
  child_succeeds(what_a_used_bin_does_not_need_is_returned);
  child_succeeds(idle_memory_decays);
  child_succeeds(idle_memory_decays_beside_a_quiet_thread);
  return 0;
}
