/* Blocks that are runs of slices: taken and given one by one and several at once, grown and shrunk in place. */
#include "blocks/blocks.h"

#include "blocks/slab.h"
#include "child.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

enum { FIRST = HAK_RUN_FIRST, LAST = HAK_CLASS_COUNT - 1 };

static char *take(uint32_t cls) {
  bool zeroed;
  char *block = hak_run_take(cls, 1, &zeroed);
  CHECK(block != NULL && hak_pagemap_class(block) == cls);
  CHECK(hak_is_block_start(block, hak_class_inverses[cls], hak_class_limits[cls]));
  CHECK(!zeroed || all_zero(block, hak_class_sizes[cls]));
  pattern_fill(block, hak_class_sizes[cls], cls);
  return block;
}

static bool holds(const char *block, uint32_t cls) {
  return pattern_holds(block, hak_class_sizes[cls], hak_class_sizes[cls], cls);
}

static size_t out_in_all(void) {
  size_t blocks = 0;
  for (uint32_t cls = FIRST; cls <= LAST; cls++) {
    blocks += hak_arena_runs(cls);
  }
  return blocks;
}

/* The first slice of a run has the class; all others have none. */
static void only_the_first_slice_has_the_class(void) {
  char *blocks[HAK_CLASS_COUNT];
  for (uint32_t cls = FIRST; cls <= LAST; cls++) {
    blocks[cls] = take(cls);
    for (size_t i = 1; i < hak_class_sizes[cls] / HAK_SLICE_BYTES; i++) {
      CHECK(hak_pagemap_class(slice_of(blocks[cls], i)) == HAK_CLASS_NONE);
    }
    CHECK(hak_arena_runs(cls) == 1);
  }
  CHECK(out_in_all() == LAST - FIRST + 1);
  for (uint32_t cls = FIRST; cls <= LAST; cls++) {
    CHECK(holds(blocks[cls], cls));
    hak_run_give(blocks[cls], cls, "test");
    CHECK(hak_pagemap_class(blocks[cls]) == HAK_CLASS_NONE && hak_arena_runs(cls) == 0);
  }
  CHECK(hak_retain_used_slices() == 0);
  slices_add_up();
}

static void runs_are_aligned(void) {
  for (size_t align = 1; align <= HAK_CHUNK_BYTES; align *= 2) {
    for (uint32_t cls = FIRST; cls <= LAST; cls += 5) {
      bool zeroed;
      char *block = hak_run_take(cls, align, &zeroed);
      CHECK(block != NULL && zeroed && (uintptr_t)block % align == 0 && (uintptr_t)block % HAK_SLICE_BYTES == 0);
      pattern_fill(block, hak_class_sizes[cls], cls);
    }
  }
}

static void what_was_used_is_not_zeroed(void) {
  bool zeroed;
  retain_everything();
  slices_begin_here();
  char *block = take(FIRST);
  hak_run_give(block, FIRST, "test");
  CHECK(hak_run_take(FIRST, 1, &zeroed) == block && !zeroed);
}

static void a_run_shrinks_where_it_is(void) {
  slices_begin_here();
  char *block = take(LAST);
  for (uint32_t cls = LAST - 1; cls >= FIRST; cls--) {
    CHECK(hak_run_resize(block, cls + 1, cls) && hak_pagemap_class(block) == cls);
    CHECK(hak_retain_used_slices() == hak_class_sizes[cls] / HAK_SLICE_BYTES);
    CHECK(hak_arena_runs(cls) == 1 && out_in_all() == 1);
    CHECK(pattern_holds(block, hak_class_sizes[cls], hak_class_sizes[LAST], LAST));
  }
  slices_add_up();
}

static void a_run_grows_where_slices_are_free(void) {
  slices_begin_here();
  char *block = take(FIRST), *behind = take(FIRST);
  CHECK(behind == block + hak_class_sizes[FIRST]);
  CHECK(!hak_run_resize(block, FIRST, FIRST + 1) && hak_pagemap_class(block) == FIRST && hak_arena_runs(FIRST) == 2);
  CHECK(hak_run_resize(block, FIRST, FIRST) && holds(block, FIRST) && holds(behind, FIRST));
  hak_run_give(behind, FIRST, "test");
  for (uint32_t cls = FIRST; cls < LAST; cls++) {
    CHECK(hak_run_resize(block, cls, cls + 1) && hak_pagemap_class(block) == cls + 1 && hak_arena_runs(cls + 1) == 1);
    CHECK(holds(block, FIRST) && out_in_all() == 1);
    pattern_fill(block, hak_class_sizes[cls + 1], cls);
    pattern_fill(block, hak_class_sizes[FIRST], FIRST);
  }
  CHECK(hak_retain_used_slices() == CHUNK / 2);
  hak_run_give(block, LAST, "test");
  slices_add_up();
}

enum { LENGTH = 7 };
static hak_free_block_t *blocks[LENGTH];

static void take_some(void) {
  for (size_t i = 0; i < LENGTH; i++) {
    blocks[i] = (void *)take(FIRST + 2);
  }
}

static void several_are_returned(void) {
  take_some();
  hak_run_return(blocks, LENGTH, FIRST + 2, "test");
  CHECK(out_in_all() == 0 && hak_retain_used_slices() == 0);
  for (size_t i = 0; i < LENGTH; i++) {
    CHECK(hak_pagemap_class(blocks[i]) == HAK_CLASS_NONE);
  }
  hak_run_return(blocks, 0, FIRST, "test");
  slices_add_up();
}

/* The mark of an earlier free block that began at the same place is removed before a run is handed out. */
static void a_stale_mark_is_not_handed_out(void) {
  bool zeroed;
  retain_everything();
  slices_begin_here();
  hak_freed_start();
  char *block = take(FIRST);
  hak_mark_free(block);
  CHECK(hak_is_marked_free(block));
  hak_run_give(block, FIRST, "test");
  CHECK(hak_run_take(FIRST, 1, &zeroed) == block && !zeroed && !hak_is_marked_free(block));
}

static void return_twice(void) {
  hak_free_block_t *const twice[] = {blocks[0], blocks[1], blocks[0]};
  hak_run_return(twice, 3, FIRST + 2, "some_function");
}

static void return_what_was_given(void) {
  hak_run_give(blocks[1], FIRST + 2, "test");
  hak_run_return(blocks, LENGTH, FIRST + 2, "some_function");
}

static void give_twice(void) {
  hak_run_give(blocks[0], FIRST + 2, "free");
  hak_run_give(blocks[0], FIRST + 2, "free");
}

static void give_as_another_class(void) {
  hak_run_give(blocks[0], FIRST + 3, "free");
}

static void misuse_is_stopped(void) {
  retain_everything();
  take_some();
  child_is_stopped(return_twice, "some_function", "double free", blocks[0]);
  child_is_stopped(return_what_was_given, "some_function", "double free", blocks[1]);
  child_is_stopped(give_twice, "free", "double free", blocks[0]);
  child_is_stopped(give_as_another_class, "free", "double free", blocks[0]);
}

static void without_memory_there_is_no_run(void) {
  bool zeroed;
  slices_begin_here();
  char *block = take(FIRST);
  set_number("MEMORY_LIMIT", hak_class_sizes[FIRST] + 2 * HAK_SLICE_BYTES);
  CHECK(hak_run_take(FIRST, 1, &zeroed) == NULL && !hak_run_resize(block, FIRST, LAST));
  CHECK(hak_pagemap_class(block) == FIRST && hak_arena_runs(FIRST) == 1 && hak_arena_runs(LAST) == 0 &&
        holds(block, FIRST));
  CHECK(hak_run_resize(block, FIRST, FIRST + 2));
  CHECK(!hak_run_resize(block, FIRST + 2, FIRST + 3));
  set_number("MEMORY_LIMIT", 0);
  hak_run_give(take(LAST), LAST, "test");
  hak_run_give(block, FIRST + 2, "test");
  CHECK(hak_retain_used_slices() == 0 && out_in_all() == 0);
}

int main(void) {
  child_succeeds(only_the_first_slice_has_the_class);
  child_succeeds(runs_are_aligned);
  child_succeeds(what_was_used_is_not_zeroed);
  child_succeeds(a_run_shrinks_where_it_is);
  child_succeeds(a_run_grows_where_slices_are_free);
  child_succeeds(several_are_returned);
  child_succeeds(a_stale_mark_is_not_handed_out);
  child_succeeds(without_memory_there_is_no_run);
  misuse_is_stopped();
  return 0;
}
