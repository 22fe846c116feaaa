/* The hardened profile from inside: read-only data, memory without access, and which blocks share a slab. The profile
 * is in force from the start, with a guard behind every slab. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "blocks/freed.h"
#include "blocks/slab.h"
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "hardened/hardened.h"
#include "pages/arena.h"
#include "pages/pagemap.h"

enum { BYTES = 1000, BLOCKS = 500 };

static void dies_by(void (*body)(void), int number) {
  static ChildResult result;
  child_run(body, &result);
  CHECK(WIFSIGNALED(result.status) && WTERMSIG(result.status) == number);
}

static void write_a_setting(void) {
  *(volatile bool *)&hak_hard.zero = false;
}

static char *volatile victim;

static void write_behind_a_slab(void) {
  *victim = 1;
}

static void a_guard_lies_behind_a_slab(void) {
  char *block = hak_malloc(BYTES);
  const hak_slab_t *slab = hak_pagemap_slab(block);
  CHECK(slab->guarded);
  victim = slab->base + ((size_t)slab->slices << HAK_SLICE_SHIFT);
  dies_by(write_behind_a_slab, SIGSEGV);
  victim += HAK_SLICE_BYTES - 1;
  dies_by(write_behind_a_slab, SIGSEGV);
  hak_free(block);
}

/* Empty slabs keep their class until memory is short. Then their slices serve as a large block. */
static void guards_go_with_their_slabs(void) {
  static void *blocks[BLOCKS];
  size_t used = hak_retain_used_slices();
  for (int i = 0; i < BLOCKS; i++) {
    CHECK((blocks[i] = hak_malloc(BYTES)) != NULL);
  }
  CHECK(hak_retain_used_slices() > used);
  for (int i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  hak_trim(0);
  CHECK(hak_retain_used_slices() > used + HAK_SLAB_SLICES + 1);
  hak_check();
  CHECK(hak_sweep_release_empty() && hak_retain_used_slices() <= used + HAK_SLAB_SLICES + 1);
  bool zeroed;
  for (int i = 0; i < 10; i++) {
    char *slices = hak_arena_take(HAK_CHUNK_SLICES / 4, 1, &zeroed);
    CHECK(slices != NULL);
    memset(slices, i, HAK_CHUNK_SLICES / 4 * (size_t)HAK_SLICE_BYTES);
  }
  hak_check();
}

static void types_without_pointers_have_slabs_of_their_own(void) {
  static char *blocks[2][BLOCKS];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      bool before = hak_hardened_type(i % 2);
      blocks[i % 2][i / 2] = hak_malloc(BYTES);
      CHECK(hak_hardened_type(before) == (i % 2 == 1));
      CHECK(hak_pagemap_slab(blocks[i % 2][i / 2])->data == (i % 2 == 1));
    }
    for (int i = 0; i < BLOCKS; i++) { /* whatever the thread allocates for */
      bool before = hak_hardened_type(i % 3 == 0);
      char *block = hak_realloc(blocks[i % 2][i / 2], BYTES - 10);
      CHECK(block == blocks[i % 2][i / 2] && hak_malloc_usable_size(block) == BYTES - 10);
      hak_free(block);
      hak_hardened_type(before);
    }
  }
  hak_thread_flush();
  hak_check();
}

static void a_child_keeps_classes_apart(void) {
  atomic_store(&hak_freed_releasing, 1); /* another thread of the parent was in the middle of a release */
  hak_hardened_fork_child(hak_heap);
  CHECK(atomic_load(&hak_freed_releasing) == 0);
}

static void tokens_tell_types(void) {
  CHECK(hak_hardened_is_data(0));
  CHECK(!hak_hardened_is_data(1));
  CHECK(hak_hardened_is_data(SIZE_MAX / 2));
  CHECK(!hak_hardened_is_data(SIZE_MAX / 2 + 1));
}

int main(void) {
  CHECK(hak_hard.on && hak_hard.guards == 1);
  dies_by(write_a_setting, SIGSEGV);
  a_guard_lies_behind_a_slab();
  guards_go_with_their_slabs();
  types_without_pointers_have_slabs_of_their_own();
  a_child_keeps_classes_apart();
  tokens_tell_types();
  return 0;
}
