/* Memory for the allocator's own objects. */
#include "system/meta.h"

#include <pthread.h>

#include "base/geometry.h"
#include "check.h"
#include "child.h"
#include "pattern.h"
#include "system.h"
#include "system/os.h"

static void memory_is_zeroed_aligned_and_apart(void) {
  static const size_t sizes[] = {1, 63, 64, 65, 4000, 100000};
  char *end = NULL;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    size_t before = hak_meta_bytes();
    char *object = hak_meta_alloc(sizes[i]);
    CHECK(object != NULL && (uintptr_t)object % HAK_CACHE_LINE == 0);
    CHECK(object >= end || object + sizes[i] <= end); /* a new piece may lie below */
    CHECK(all_zero(object, sizes[i]));
    pattern_fill(object, sizes[i], i);
    size_t grown = hak_meta_bytes() - before;
    CHECK(grown >= sizes[i] && grown < sizes[i] + HAK_CACHE_LINE);
    end = object + sizes[i];
  }
}

static void a_large_object_gets_a_mapping(void) {
  const size_t bytes = (size_t)8 << 20;
  char *object = hak_meta_alloc(bytes);
  CHECK(object != NULL && all_zero(object, bytes));
}

/* A failed request costs nothing, and the rest of the piece can still be used. */
static void without_memory_it_says_so(void) {
  const size_t bytes = (size_t)8 << 20;
  CHECK(hak_meta_alloc(64) != NULL);
  size_t before = hak_meta_bytes();
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  CHECK(hak_meta_alloc(bytes) == NULL);
  CHECK(hak_meta_bytes() == before);
  CHECK(hak_meta_alloc(64) != NULL);
  size_t objects = 0;
  while (hak_meta_alloc(1000) != NULL) {
    objects++;
  }
  CHECK(objects * 1000 < bytes);
  system_allow();
  CHECK(hak_meta_alloc(1000) != NULL);
}

/* Without memory for a full piece, a shorter one is mapped. */
static void a_short_piece_is_better_than_none(void) {
  hak_os_counts_t before, after;
  CHECK(hak_meta_alloc(64) != NULL);
  system_refuse_mappings_from(64 << 10);
  for (size_t bytes = 0; bytes < (size_t)1 << 20; bytes += 1000) {
    CHECK(hak_meta_alloc(1000) != NULL);
  }
  CHECK(hak_meta_alloc(59 << 10) != NULL && hak_meta_alloc(64 << 10) == NULL);
  system_allow();
  hak_os_read_counts(&before);
  CHECK(hak_meta_alloc(64 << 10) != NULL);
  hak_os_read_counts(&after);
  CHECK(after.mmap == before.mmap + 1);
}

static void unlock_in_child(void) {
  hak_lock_after_fork(&hak_meta_lock, true);
  CHECK(hak_meta_alloc(64) != NULL);
}

static void it_survives_a_fork(void) {
  CHECK(hak_lock_before_fork(&hak_meta_lock));
  child_succeeds(unlock_in_child);
  hak_lock_after_fork(&hak_meta_lock, false);
  CHECK(hak_meta_alloc(64) != NULL);
}

enum { THREADS = 4, OBJECTS = 400, OBJECT_BYTES = 2000 };

static void *make_objects(void *number) {
  static char *objects[THREADS][OBJECTS];
  char **mine = objects[*(size_t *)number];
  for (size_t i = 0; i < OBJECTS; i++) {
    mine[i] = hak_meta_alloc(OBJECT_BYTES);
    CHECK(mine[i] != NULL && all_zero(mine[i], OBJECT_BYTES));
    pattern_fill(mine[i], OBJECT_BYTES, (uintptr_t)mine[i]);
  }
  for (size_t i = 0; i < OBJECTS; i++) {
    CHECK(pattern_holds(mine[i], OBJECT_BYTES, OBJECT_BYTES, (uintptr_t)mine[i]));
  }
  return NULL;
}

static void threads_get_objects_of_their_own(void) {
  pthread_t threads[THREADS];
  size_t numbers[THREADS], before = hak_meta_bytes();
  for (size_t i = 0; i < THREADS; i++) {
    numbers[i] = i;
    CHECK(pthread_create(&threads[i], NULL, make_objects, &numbers[i]) == 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(hak_meta_bytes() - before == hak_round_up(OBJECT_BYTES, HAK_CACHE_LINE) * THREADS * OBJECTS);
}

int main(void) {
  memory_is_zeroed_aligned_and_apart();
  a_large_object_gets_a_mapping();
  child_succeeds(without_memory_it_says_so);
  child_succeeds(a_short_piece_is_better_than_none);
  it_survives_a_fork();
  child_succeeds(threads_get_objects_of_their_own);
  return 0;
}
