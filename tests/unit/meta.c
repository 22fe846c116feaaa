/* Memory for the allocator's own objects. */
#include "meta.h"

#include "check.h"
#include "child.h"
#include "os.h"
#include "pattern.h"
#include "system.h"

static void memory_is_zeroed_aligned_and_apart(void) {
  static const size_t sizes[] = {1, 63, 64, 65, 4000, 100000};
  char *end = NULL;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    size_t before = hak_meta_bytes();
    char *object = hak_meta_alloc(sizes[i]);
    CHECK(object != NULL && (uintptr_t)object % HAK_CACHE_LINE == 0);
    CHECK(object >= end || object + sizes[i] <= end); /* a new chunk may lie below */
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

/* A request that fails costs nothing, and what the chunk still holds can be had. */
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

static void unlock_in_child(void) {
  hak_meta_fork_unlock(true);
  CHECK(hak_meta_alloc(64) != NULL);
}

static void it_survives_a_fork(void) {
  hak_meta_fork_lock();
  child_succeeds(unlock_in_child);
  hak_meta_fork_unlock(false);
  CHECK(hak_meta_alloc(64) != NULL);
}

int main(void) {
  memory_is_zeroed_aligned_and_apart();
  a_large_object_gets_a_mapping();
  child_succeeds(without_memory_it_says_so);
  it_survives_a_fork();
  return 0;
}
