/* Regions at their limits and at their ends: what is free is found, what was refused leaves no trace, and a block is
 * resized while its region is released. */
#include "check.h"
#include "hakmem.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { MIB = 1 << 20, BLOCKS = 20000, ROUNDS = 6, ASKS = 20000 };

static void *blocks[BLOCKS];

static hak_region_usage_t usage(const hak_region_t *region) {
  hak_region_usage_t found;
  CHECK(hak_region_usage(region, &found));
  return found;
}

static size_t fill(hak_region_t *region, size_t bytes) {
  size_t count = 0;
  while (count < BLOCKS && (blocks[count] = hak_region_malloc(region, bytes)) != NULL) {
    count++;
  }
  return count;
}

static int free_it(void *block, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  hak_free(block);
  return 0;
}

static void walks_leave_no_spans(void) {
  hak_region_t *region = hak_region_new(NULL);
  for (size_t i = 0; i < ROUNDS; i++) {
    CHECK(fill(region, i % 2 ? 1000 : 500) == BLOCKS && hak_region_walk(region, free_it, NULL) == 0);
    hak_check();
    CHECK(usage(region).live_blocks == 0 && usage(region).used_bytes <= 2 << 16);
  }
  hak_region_destroy(region);
}

static void free_parts_are_found(void) {
  hak_region_t *region = hak_region_new(&(hak_region_options_t){.hard_limit = MIB});
  size_t count = fill(region, 1000), again;
  for (size_t i = 0; i < count; i += 2) {
    hak_free(blocks[i]);
  }
  CHECK((again = fill(region, 500)) >= count * 9 / 10);
  hak_check();
  for (size_t i = 0; i < again; i++) {
    hak_free(blocks[i]);
  }
  CHECK(fill(region, 900) >= count * 9 / 20); /* neighbours are joined */
  hak_check();
  hak_region_destroy(region);
}

/* The spans of one region go to another below the same limit. */
static void empty_spans_count_for_nobody(void) {
  hak_region_t *parent = hak_region_new(&(hak_region_options_t){.hard_limit = 2 * MIB});
  hak_region_t *one = hak_region_new(&(hak_region_options_t){.parent = parent}), *other;
  CHECK((other = hak_region_new(&(hak_region_options_t){.parent = parent})) != NULL);
  for (int i = 0; i < ROUNDS; i++) {
    CHECK(fill(one, 1000) > 1500);
    hak_region_reset(one);
    CHECK(hak_region_malloc(i % 3 == 0 ? one : i % 3 == 1 ? other : parent, MIB) != NULL);
    hak_region_reset(other);
    hak_region_reset(one);
    hak_region_reset(parent);
    hak_check();
  }
  CHECK(fill(other, 1000) > 1500 && usage(parent).used_bytes <= 2 * MIB);
  hak_region_destroy(parent);
}

/* Nor do they stay with regions when the process wants memory back. */
static void empty_spans_are_trimmed(void) {
  hak_region_t *region = hak_region_new(NULL);
  CHECK(fill(region, 1000) == BLOCKS && usage(region).used_bytes > 16 * MIB);
  hak_region_reset(region);
  CHECK(hak_trim(0) && usage(region).used_bytes == 0);
  CHECK(fill(region, 1000) == BLOCKS);
  hak_region_reset(region);
  hak_region_limit(hak_region_process(), 0, 32 * MIB);
  void *block = hak_malloc(20 * MIB);
  CHECK(block && usage(region).used_bytes == 0);
  hak_free(block);
  hak_region_limit(hak_region_process(), 0, 0);
  hak_check();
  hak_region_destroy(region);
}

static void *asks_too_much(void *region) {
  for (int i = 0; i < ASKS; i++) {
    CHECK(hak_region_malloc(region, 900 * MIB) == NULL);
  }
  return NULL;
}

static void refusals_leave_no_trace(void) {
  pthread_t thread;
  hak_region_t *parent = hak_region_new(&(hak_region_options_t){.hard_limit = 4 * MIB});
  hak_region_t *child = hak_region_new(&(hak_region_options_t){.parent = parent, .hard_limit = 901 * MIB});
  CHECK(hak_region_malloc(child, 800 * MIB) == NULL && usage(child).peak_bytes == 0 && usage(parent).peak_bytes == 0);
  CHECK(pthread_create(&thread, NULL, asks_too_much, child) == 0);
  for (int i = 0; i < ASKS; i++) {
    void *block = hak_region_malloc(child, 3 * MIB), *small = hak_region_malloc(parent, 5000);
    CHECK(block && small);
    hak_free(block);
    hak_free(small);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  hak_region_t *endless = hak_region_new(NULL);
  CHECK(hak_region_malloc(endless, (size_t)PTRDIFF_MAX / 2) == NULL && usage(endless).peak_bytes == 0);
  hak_region_destroy(endless);
  CHECK(usage(parent).peak_bytes < 4 * MIB);
  hak_region_destroy(parent);
}

static bool release_it(hak_region_t *met, size_t bytes, hak_region_limit_kind_t limit, void *region) {
  (void)met, (void)bytes, (void)limit;
  hak_region_release(region);
  return true;
}

static void released_while_it_grows(size_t had, size_t bytes, bool in_scope) {
  hak_region_t *parent = hak_region_new(NULL), *region = hak_region_new(&(hak_region_options_t){.parent = parent});
  hak_region_t *scope = hak_region_new(NULL);
  char *block = hak_region_malloc(region, had);
  CHECK(block && memset(block, 7, had) == block && hak_region_malloc(region, 100) != NULL);
  hak_region_on_limit(parent, release_it, region);
  hak_region_limit(parent, 4096, 0);
  CHECK(!in_scope || hak_region_enter(scope));
  CHECK((block = hak_realloc(block, bytes)) != NULL && block[0] == 7 && block[had - 1] == 7);
  CHECK(hak_region_of(block) == (in_scope ? scope : NULL) && usage(parent).used_bytes == 0);
  hak_free(block);
  if (in_scope) {
    hak_region_leave(scope);
  }
  hak_check();
  hak_region_destroy(scope);
  hak_region_destroy(parent);
}

/* Another thread resizes its block meanwhile. */
static _Atomic bool stop;

static void *resizes(void *block) {
  for (size_t i = 0; !atomic_load(&stop); i++) {
    block = hak_realloc(block, i % 2 ? 100000 : 800000);
    CHECK(block && *(char *)block == 3);
  }
  return block;
}

static void released_by_another_thread(void) {
  hak_region_t *parent = hak_region_new(NULL);
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    hak_region_t *region = hak_region_new(&(hak_region_options_t){.parent = parent});
    char *block = hak_region_malloc(region, 200000);
    CHECK(block && (*block = 3) == 3);
    atomic_store(&stop, false);
    CHECK(pthread_create(&thread, NULL, resizes, block) == 0);
    for (int spins = 0; spins < 1000 && usage(region).freed_bytes < MIB; spins++) {
    }
    hak_region_release(region);
    atomic_store(&stop, true);
    CHECK(pthread_join(thread, (void **)&block) == 0);
    hak_free(block);
    CHECK(usage(parent).used_bytes == 0 && usage(parent).live_blocks == 0);
  }
  hak_check();
  hak_region_destroy(parent);
}

static void resized_to_nothing(void) {
  hak_region_t *region = hak_region_new(NULL);
  CHECK(hak_region_realloc(region, hak_region_malloc(region, 10), 0) == NULL);
  CHECK(hak_region_realloc(region, hak_malloc(10), 0) == NULL && usage(region).live_blocks == 0);
  hak_region_destroy(region);
}

int main(void) {
  walks_leave_no_spans();
  free_parts_are_found();
  empty_spans_count_for_nobody();
  empty_spans_are_trimmed();
  refusals_leave_no_trace();
  released_while_it_grows(100000, 3 * MIB, false);
  released_while_it_grows(6 * MIB, 9 * MIB, false);
  released_while_it_grows(100, 9000, false);
  released_while_it_grows(100000, 3 * MIB, true);
  released_by_another_thread();
  resized_to_nothing();
  return 0;
}
