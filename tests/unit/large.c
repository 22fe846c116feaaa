/* Large blocks: size, alignment, growing in place, moving, and what wrong addresses are called. */
#include "large.h"

#include <string.h>

#include "arena.h"
#include "check.h"
#include "child.h"
#include "os.h"
#include "pattern.h"
#include "setting.h"
#include "system.h"
#include "window.h"

enum { UNIT = HAK_UNIT_BYTES };

static char *alloc(size_t bytes) {
  bool zeroed;
  char *block = hak_large_alloc(bytes, HAK_BLOCK_MIN, &zeroed);
  CHECK(block != NULL && hak_class_at(block) == HAK_CLASS_LARGE);
  CHECK(hak_large_usable(block) >= bytes && hak_large_usable(block) - bytes < hak_os_page_bytes());
  CHECK(!zeroed || all_zero(block, bytes));
  pattern_fill(block, bytes, bytes);
  return block;
}

static void blocks_are_aligned_and_counted(void) {
  size_t blocks = 0, bytes = 0;
  for (size_t align = 1; align <= (size_t)8 << 20; align *= 4) {
    bool zeroed;
    char *block = hak_large_alloc(UNIT + align, align, &zeroed);
    CHECK(block != NULL && zeroed && (uintptr_t)block % align == 0 && (uintptr_t)block % UNIT == 0);
    memset(block, 1, UNIT + align);
    blocks++;
    bytes += hak_large_usable(block);
    CHECK(hak_large_totals().blocks == blocks && hak_large_totals().bytes == bytes);
  }
  CHECK(hak_large_alloc((size_t)PTRDIFF_MAX + 1, 16, &(bool){false}) == NULL);
  CHECK(hak_large_alloc(UNIT, (size_t)PTRDIFF_MAX + 1, &(bool){false}) == NULL);
  CHECK(hak_large_alloc(PTRDIFF_MAX, 16, &(bool){false}) == NULL);
  CHECK(hak_large_totals().blocks == blocks);
}

static void an_aligned_block_may_be_empty(void) {
  bool zeroed;
  char *block = hak_large_alloc(0, UNIT, &zeroed);
  CHECK(block != NULL && hak_large_usable(block) > 0);
  hak_large_free(block, "test");
  CHECK(hak_arena_used_units() == 0 && hak_large_totals().blocks == 0 && hak_large_totals().bytes == 0);
}

static void what_was_used_is_not_zeroed(void) {
  bool zeroed;
  retain_everything();
  char *block = alloc(3 * UNIT);
  hak_large_free(block, "test");
  CHECK(hak_large_alloc(4 * UNIT, 1, &zeroed) == block && !zeroed);
}

static void a_block_shrinks_where_it_is(void) {
  char *block = alloc(10 * UNIT);
  CHECK(hak_large_resize(block, 3 * UNIT + 1));
  CHECK(hak_arena_used_units() == 4 && hak_large_totals().blocks == 1);
  CHECK(hak_large_totals().bytes == hak_large_usable(block));
  CHECK(pattern_holds(block, 3 * UNIT, 10 * UNIT, 10 * UNIT));
  CHECK(alloc(UNIT) == block + 4 * (size_t)UNIT);
}

static void a_block_grows_where_there_is_room(void) {
  char *block = alloc(UNIT + 1), *behind = alloc(UNIT);
  CHECK(hak_large_resize(block, 2 * UNIT)); /* within its last unit */
  CHECK(!hak_large_resize(block, 2 * UNIT + 1));
  CHECK(hak_large_usable(block) == 2 * UNIT);
  hak_large_free(behind, "test");
  CHECK(hak_large_resize(block, (size_t)100 * UNIT));
  CHECK(hak_large_usable(block) == (size_t)100 * UNIT && hak_arena_used_units() == 100);
  CHECK(pattern_holds(block, UNIT + 1, UNIT + 1, UNIT + 1));
  CHECK(!hak_large_resize(block, (size_t)PTRDIFF_MAX + 1));
  hak_large_free(block, "test");
  CHECK(hak_large_totals().blocks == 0 && hak_large_totals().bytes == 0);
  hak_arena_check();
}

static char *move(char *block, size_t from, size_t to) {
  char *moved = hak_large_move(block, to);
  CHECK(moved != NULL && moved != block && hak_class_at(block) == HAK_CLASS_NONE);
  CHECK(hak_large_usable(moved) >= to && hak_large_totals().blocks == 1);
  CHECK(pattern_holds(moved, from < to ? from : to, from, from));
  pattern_fill(moved, to, to);
  return moved;
}

static uint64_t moves(void) {
  hak_os_counts_t counts;
  hak_os_read_counts(&counts);
  return counts.mremap;
}

/* Small ones are copied, long ones moved by the page; where that is refused they are copied as well. */
static void a_block_moves_with_its_contents(void) {
  const size_t small = UNIT, large = (size_t)4 << 20;
  char *block = alloc(small);
  uint64_t before = moves();
  block = move(block, small, 2 * small);
  CHECK(moves() == before);
  block = move(block, 2 * small, large);
  block = move(block, large, 2 * large); /* the first one also tries out whether moving works */
  before = moves();
  block = move(block, 2 * large, 3 * large);
  CHECK(moves() == before + 1);
  system_refuse(SYSTEM_MREMAP, 0, SYSTEM_ALL);
  block = move(block, 3 * large, 4 * large);
  system_allow();
  hak_large_free(block, "test");
  CHECK(hak_large_totals().blocks == 0 && hak_large_totals().bytes == 0 && hak_arena_used_units() == 0);
  hak_arena_check();
}

static void without_memory_a_block_stays(void) {
  char *block = alloc(UNIT);
  set_number("MEMORY_LIMIT", 2 * UNIT);
  CHECK(hak_large_move(block, 2 * UNIT) == NULL);
  CHECK(!hak_large_resize(block, 2 * UNIT + 1));
  CHECK(hak_large_alloc(2 * UNIT, 1, &(bool){false}) == NULL);
  CHECK(pattern_holds(block, UNIT, UNIT, UNIT) && hak_large_usable(block) == UNIT);
}

static char *address;

static void free_address(void) {
  hak_large_free(address, "free");
}

static void diagnose_address(void) {
  hak_large_diagnose("some_function", address);
}

static void free_twice(void) {
  address = alloc(2 * UNIT);
  hak_large_free(address, "free");
  hak_large_free(address, "free");
}

static void wrong_addresses_are_named(void) {
  address = hide_pointer("no window yet");
  child_is_stopped(diagnose_address, "some_function", "invalid pointer", address);
  char *block = alloc(4 * UNIT), *freed = alloc(4 * UNIT);
  hak_large_free(freed, "test");
  address = block + 16;
  child_is_stopped(free_address, "free", "not the start of a block", address);
  address = block + 3 * UNIT;
  child_is_stopped(diagnose_address, "some_function", "not the start of a block", address);
  child_is_stopped(free_twice, "free", "double free", freed);
  address = freed;
  child_is_stopped(diagnose_address, "some_function", "double free", address);
  address = freed + UNIT; /* no block ever began there */
  child_is_stopped(diagnose_address, "some_function", "invalid pointer", address);
  address = hak_window_address(5 * (size_t)HAK_SLOT_UNITS);
  child_is_stopped(diagnose_address, "some_function", "invalid pointer", address);
  address = hide_pointer("a literal");
  child_is_stopped(diagnose_address, "some_function", "invalid pointer", address);
}

int main(void) {
  child_succeeds(blocks_are_aligned_and_counted);
  child_succeeds(an_aligned_block_may_be_empty);
  child_succeeds(what_was_used_is_not_zeroed);
  child_succeeds(a_block_shrinks_where_it_is);
  child_succeeds(a_block_grows_where_there_is_room);
  child_succeeds(a_block_moves_with_its_contents);
  child_succeeds(without_memory_a_block_stays);
  wrong_addresses_are_named();
  return 0;
}
