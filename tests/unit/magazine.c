/* Arrays of pointers to blocks: their sizes, their reuse, and the memory of large unused ones. */
#include "system/magazine.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/geometry.h"
#include "check.h"
#include "child.h"
#include "system.h"
#include "system/meta.h"
#include "system/os.h"

static hak_magazine_t make(uint32_t blocks) {
  hak_magazine_t magazine = HAK_MAGAZINE_NONE;
  CHECK(hak_magazine_make(&magazine, blocks));
  CHECK(magazine.size >= blocks && hak_magazine_slots(&magazine)[0] == HAK_NO_BLOCK);
  return magazine;
}

static bool is_none(const hak_magazine_t *magazine) {
  return magazine->size == 0 && hak_magazine_slots(magazine) == hak_magazine_none + 1;
}

/* Without a magazine, a look at the newest block finds none. */
static void none_has_no_block(void) {
  hak_magazine_t none = HAK_MAGAZINE_NONE;
  CHECK(is_none(&none));
  CHECK(hak_magazine_slots(&none)[-1] == HAK_NO_BLOCK && hak_magazine_slots(&none)[0] == HAK_NO_BLOCK);
  CHECK(!hak_is_marked_free(HAK_NO_BLOCK) && !hak_is_marked_taken(HAK_NO_BLOCK));
  size_t bytes = hak_meta_bytes();
  hak_magazine_drop(&none);
  CHECK(is_none(&none) && hak_meta_bytes() == bytes);
}

static void sizes_double(void) {
  uint32_t last = 0;
  for (uint32_t blocks = 1; blocks <= HAK_MAGAZINE_MAX; blocks += blocks / 5 + 1) {
    hak_magazine_t magazine = make(blocks);
    CHECK((magazine.size & (magazine.size - 1)) == 0 && (magazine.size < 2 * blocks || blocks < 8));
    CHECK(magazine.size >= last);
    for (uint32_t i = 1; i <= magazine.size; i++) { /* every slot can be written */
      hak_magazine_slots(&magazine)[i] = (hak_free_block_t *)(uintptr_t)i;
    }
    last = magazine.size;
    hak_magazine_drop(&magazine);
    CHECK(is_none(&magazine));
  }
  for (uint32_t size = 8; size <= HAK_MAGAZINE_MAX; size *= 2) {
    hak_magazine_t magazine = make(size);
    CHECK(magazine.size == size);
  }
}

static void larger_ones_are_not_to_be_had(void) {
  hak_magazine_t magazine = HAK_MAGAZINE_NONE;
  size_t bytes = hak_meta_bytes();
  CHECK(!hak_magazine_make(&magazine, HAK_MAGAZINE_MAX + 1) && is_none(&magazine));
  CHECK(!hak_magazine_make(&magazine, UINT32_MAX) && is_none(&magazine));
  CHECK(hak_meta_bytes() == bytes);
}

static void what_is_dropped_serves_again(void) {
  enum { SOME = 50 };
  hak_magazine_t some[SOME];
  size_t bytes = 0;
  for (int round = 0; round < 20; round++) {
    for (uint32_t i = 0; i < SOME; i++) {
      some[i] = make(1 + i * 37);
      memset(hak_magazine_slots(&some[i]) + 1, 0xff, some[i].size * sizeof(void *));
    }
    for (uint32_t i = 0; i < SOME; i++) { /* no two magazines share a slot */
      for (uint32_t k = 0; k < i; k++) {
        hak_free_block_t **a = hak_magazine_slots(&some[i]), **b = hak_magazine_slots(&some[k]);
        CHECK(a + some[i].size < b || b + some[k].size < a);
      }
    }
    bytes = bytes ? bytes : hak_meta_bytes();
    CHECK(hak_meta_bytes() == bytes);
    for (uint32_t i = 0; i < SOME; i++) {
      hak_magazine_drop(&some[(i * 7) % SOME]);
    }
  }
}

/* Large unused arrays keep only the pages that they share with others. */
static void large_ones_give_their_pages_back(void) {
  const size_t page = hak_os_page_bytes();
  hak_magazine_t magazine = make(HAK_MAGAZINE_MAX);
  hak_free_block_t **slots = hak_magazine_slots(&magazine);
  memset(slots + 1, 0xff, HAK_MAGAZINE_MAX * sizeof(void *));
  size_t advices = system_advices(MADV_DONTNEED);
  hak_magazine_drop(&magazine);
  CHECK(system_advices(MADV_DONTNEED) == advices + 1);
  magazine = make(HAK_MAGAZINE_MAX);
  CHECK(hak_magazine_slots(&magazine) == slots);
  size_t kept = 0;
  for (size_t i = 1; i <= HAK_MAGAZINE_MAX; i++) {
    kept += slots[i] != NULL;
  }
  CHECK(kept * sizeof(void *) < 2 * page);
}

/* If the system refuses the pages, the array stays unchanged, and can be reused. */
static void pages_may_not_go(void) {
  hak_magazine_t magazine = make(HAK_MAGAZINE_MAX);
  hak_free_block_t **slots = hak_magazine_slots(&magazine);
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  hak_magazine_drop(&magazine);
  CHECK(is_none(&magazine));
  magazine = make(HAK_MAGAZINE_MAX);
  CHECK(hak_magazine_slots(&magazine) == slots);
}

/* The array's neighbours in memory, smaller or larger, keep their contents. */
static void only_its_own_pages_go(void) {
  enum { SOME = 9 };
  hak_magazine_t some[SOME];
  while (hak_meta_bytes() < 128 << 10) { /* from there on, several arrays fit into one mapping */
    CHECK(hak_meta_alloc(1000) != NULL);
  }
  for (uint32_t i = 0; i < SOME; i++) {
    some[i] = make(i % 3 == 1 ? 3 << 10 : 100);
    memset(hak_magazine_slots(&some[i]), (int)i + 1, (some[i].size + 1) * sizeof(void *));
  }
  for (uint32_t i = 1; i < SOME; i += 3) {
    hak_magazine_drop(&some[i]);
  }
  for (uint32_t i = 0; i < SOME; i++) {
    const char *bytes = (const char *)hak_magazine_slots(&some[i]);
    for (size_t k = 0; i % 3 != 1 && k < (some[i].size + 1) * sizeof(void *); k++) {
      CHECK(bytes[k] == (char)(i + 1));
    }
  }
}

static void without_memory_there_is_none(void) {
  hak_magazine_t first = make(100), second = HAK_MAGAZINE_NONE;
  hak_magazine_drop(&first);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  while (hak_meta_alloc(1)) {
  }
  CHECK(!hak_magazine_make(&second, HAK_MAGAZINE_MAX) && is_none(&second));
  CHECK(!hak_magazine_make(&second, 3000) && is_none(&second));
  CHECK(hak_magazine_make(&first, 100) && !hak_magazine_make(&second, 100)); /* one was left */
  system_allow();
  CHECK(hak_magazine_make(&second, 100));
}

/* During a change, no reader sees the size of one magazine with the slots of another. */
static void a_change_begins_and_ends_without_a_size(void) {
  hak_magazine_t small = make(8), large = make(1000), magazine = small;
  hak_magazine_set(&magazine, &large);
  CHECK(hak_magazine_slots(&magazine) == hak_magazine_slots(&large) && magazine.size == large.size);
  hak_magazine_set(&magazine, &HAK_MAGAZINE_NONE);
  CHECK(is_none(&magazine));
}

enum { THREADS = 4, ROUNDS = 5000, HELD = 8 };

static void *make_and_drop(void *number) {
  hak_magazine_t held[HELD];
  for (int i = 0; i < HELD; i++) {
    held[i] = HAK_MAGAZINE_NONE;
  }
  for (uint32_t round = 0; round < ROUNDS; round++) {
    hak_magazine_t *magazine = &held[round % HELD];
    for (uint32_t i = 1; i <= magazine->size; i++) {
      CHECK(hak_magazine_slots(magazine)[i] == number);
    }
    hak_magazine_drop(magazine);
    CHECK(hak_magazine_make(magazine, 1 + round % 60));
    for (uint32_t i = 1; i <= magazine->size; i++) {
      hak_magazine_slots(magazine)[i] = number;
    }
  }
  return NULL;
}

static void nobody_has_what_another_has(void) {
  pthread_t threads[THREADS];
  static char numbers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, make_and_drop, &numbers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
}

int main(void) {
  child_succeeds(none_has_no_block);
  child_succeeds(sizes_double);
  child_succeeds(larger_ones_are_not_to_be_had);
  child_succeeds(what_is_dropped_serves_again);
  child_succeeds(large_ones_give_their_pages_back);
  child_succeeds(pages_may_not_go);
  child_succeeds(only_its_own_pages_go);
  child_succeeds(without_memory_there_is_none);
  child_succeeds(a_change_begins_and_ends_without_a_size);
  child_succeeds(nobody_has_what_another_has);
  return 0;
}
