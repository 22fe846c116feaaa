/* Guarded blocks for one test. */
#ifndef HAK_TEST_GUARDED_H
#define HAK_TEST_GUARDED_H

#include "check.h"
#include "hakmem.h"
#include "inspect/guard.h"
#include "inspect/sample.h"
#include "system/os.h"

enum { ALL = 1, SLOTS = 8, LEFT = 0, RIGHT = 1 };

static inline bool is_guarded(const void *block) {
  return hak_guard_slot_of(block) != NULL;
}

static inline bool begins_its_page(const void *block) {
  return (uintptr_t)block % hak_os_page_bytes() == 0;
}

/* A guarded block at that end of its page. */
static inline char *guarded_at(int end, size_t bytes) {
  char *block = hak_malloc(bytes);
  while (!is_guarded(block) || begins_its_page(block) == end) {
    hak_free(block);
    block = hak_malloc(bytes);
  }
  return block;
}

static inline void start(void) {
  hak_sample_seed(7);
  CHECK(hak_sample_guard(ALL, SLOTS));
}

#endif
