/* Other code has mappings where the heap would put its own. The heap never touches them, hands them out, or takes them
 * for its own. */
#include <string.h>
#include <sys/mman.h>

#include "blocks/blocks.h"
#include "check.h"
#include "child.h"
#include "pages/arena.h"
#include "pages/pagemap.h"
#include "pattern.h"
#include "setting.h"

enum { MAPPINGS_MAX = 64, CHUNKS_MAX = 64 };

static struct {
  char *at;
  size_t bytes;
} theirs[MAPPINGS_MAX];
static size_t mappings;

/* False: the place is mapped already. */
static bool map_theirs(char *at, size_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  CHECK(mappings < MAPPINGS_MAX);
  void *got = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (got != at) {
    CHECK(got == MAP_FAILED);
    return false;
  }
  pattern_fill(at, bytes, mappings);
  theirs[mappings].at = at;
  theirs[mappings++].bytes = bytes;
  return true;
}

static bool is_theirs(const char *at, size_t bytes) {
  for (size_t i = 0; i < mappings; i++) {
    if (at < theirs[i].at + theirs[i].bytes && theirs[i].at < at + bytes) {
      return true;
    }
  }
  return false;
}

static void theirs_are_unharmed(void) {
  for (size_t i = 0; i < mappings; i++) {
    CHECK(pattern_holds(theirs[i].at, theirs[i].bytes, theirs[i].bytes, i));
    CHECK(hak_pagemap_class(theirs[i].at) == HAK_CLASS_NONE);
  }
  hak_arena_check();
}

/* Takes whole chunks, and writes to them. */
static char *take(size_t chunks) {
  bool zeroed;
  char *at = hak_huge_chunks_take(chunks, 0, HAK_CHUNK_BYTES, false, &zeroed);
  CHECK(at != NULL && zeroed && !is_theirs(at, chunks << HAK_CHUNK_SHIFT));
  memset(at, 1, chunks << HAK_CHUNK_SHIFT);
  return at;
}

/* The next chunks would lie right below the last ones. */
static void memory_is_found_around_them(void) {
  char *last = take(1);
  CHECK(map_theirs(last - HAK_CHUNK_BYTES / 2, HAK_SLICE_BYTES));
  for (size_t chunks = 1; chunks < 20; chunks++) {
    char *at = take(chunks);
    (void)map_theirs(at - HAK_CHUNK_BYTES, HAK_CHUNK_BYTES); /* fills the next place, or its end */
    (void)map_theirs(at - HAK_SLICE_BYTES, HAK_SLICE_BYTES);
  }
  CHECK(mappings > 5);
  theirs_are_unharmed();
}

static void slices_are_found_around_them(void) {
  bool zeroed;
  for (size_t i = 0; i < 4 * HAK_CHUNK_SLICES; i++) {
    char *slice = hak_arena_take(1, 1, &zeroed);
    CHECK(slice != NULL && !is_theirs(slice, HAK_SLICE_BYTES));
    memset(slice, 1, HAK_SLICE_BYTES);
    char *chunk = slice - ((uintptr_t)slice & (HAK_CHUNK_BYTES - 1));
    if (mappings < MAPPINGS_MAX) {
      (void)map_theirs(chunk - HAK_CHUNK_BYTES, HAK_SLICE_BYTES);
    }
  }
  CHECK(mappings > 2);
  theirs_are_unharmed();
}

static void a_block_does_not_grow_into_them(void) {
  bool zeroed;
  size_t bytes = 4 << 20;
  char *block = hak_huge_alloc(bytes, 16, &zeroed);
  CHECK(block != NULL);
  (void)map_theirs(block + bytes, HAK_CHUNK_BYTES);
  CHECK(!hak_huge_resize(block, bytes + 1));
  CHECK(hak_huge_usable(block) == bytes);
  theirs_are_unharmed();
}

static void nothing_of_theirs_is_given_back(void) {
  char *ours[CHUNKS_MAX];
  for (size_t i = 0; i < CHUNKS_MAX; i++) {
    ours[i] = take(1);
    if (i % 2 == 0) {
      (void)map_theirs(ours[i] - HAK_CHUNK_BYTES, HAK_CHUNK_BYTES);
    }
  }
  for (size_t i = 0; i < CHUNKS_MAX; i++) {
    hak_huge_chunks_give(ours[i]);
  }
  (void)hak_purge_all(0);
  CHECK(hak_arena_totals().dirty_slices == 0 && hak_arena_totals().used_slices == 0);
  theirs_are_unharmed();
}

/* Other code maps a range that the heap used before and unmapped. */
static void what_was_ours_may_be_theirs(void) {
  set_number("WARM_POOL_SIZE", 0);
  set_number("RETAIN", 0);
  set_number("RETAIN_MAX", 0);
  char *ours = take(8);
  hak_huge_chunks_give(ours);
  (void)hak_purge_all(0);
  CHECK(hak_arena_totals().mapped_slices == 0 && hak_arena_why(ours) == HAK_MISUSE_DOUBLE_FREE);
  for (size_t i = 0; i < 8; i += 2) {
    CHECK(map_theirs(ours + (i << HAK_CHUNK_SHIFT), HAK_CHUNK_BYTES));
  }
  for (size_t i = 0; i < 8; i++) {
    (void)take(1);
  }
  (void)take(3);
  theirs_are_unharmed();
}

static void *address;

static void free_theirs(void) {
  hak_misuse("free", hak_arena_why(address), address);
}

static void a_pointer_to_theirs_is_invalid(void) {
  char *ours = take(1);
  CHECK(map_theirs(ours - HAK_CHUNK_BYTES, HAK_CHUNK_BYTES));
  address = ours - HAK_CHUNK_BYTES;
  child_is_stopped(free_theirs, "free", "invalid pointer", address);
  address = ours - HAK_SLICE_BYTES;
  child_is_stopped(free_theirs, "free", "invalid pointer", address);
  address = ours + HAK_SLICE_BYTES;
  child_is_stopped(free_theirs, "free", "not the start of a block", address);
}

int main(void) {
  child_succeeds(memory_is_found_around_them);
  child_succeeds(slices_are_found_around_them);
  child_succeeds(a_block_does_not_grow_into_them);
  child_succeeds(nothing_of_theirs_is_given_back);
  child_succeeds(what_was_ours_may_be_theirs);
  child_succeeds(a_pointer_to_theirs_is_invalid);
  return 0;
}
