/* Blocks of another copy of the library, and of libc's own heap. This program says that malloc is overridden, as the
 * override libraries do, so that such blocks may come here. */
#include "foreign.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "child.h"
#include "hakmem.h"

extern const bool hak_override_present;
const bool hak_override_present = true;

/* As in foreign.c: the layout that all versions share. */
typedef struct Copy {
  struct Copy *next;
  bool (*owns)(const void *block);
  void (*free)(void *block);
  void *(*realloc)(void *block, size_t bytes);
  size_t (*usable)(const void *block);
} Copy;

_Atomic(Copy *) *hak_internal_copies(void);

static char their_blocks[2][64];
static int freed;

static bool they_own(const void *block) {
  return block == their_blocks[0] || block == their_blocks[1];
}

static void they_free(void *block) {
  CHECK(they_own(block));
  freed++;
}

static void *they_realloc(void *block, size_t bytes) {
  CHECK(block == their_blocks[0] && bytes == 50);
  return their_blocks[1];
}

static size_t they_know_usable(const void *block) {
  CHECK(they_own(block));
  return sizeof their_blocks[0];
}

static void another_copy_serves_its_blocks(void) {
  static Copy copy = {NULL, they_own, they_free, they_realloc, they_know_usable};
  CHECK(hak_realloc(hak_malloc(10), 20) != NULL);
  copy.next = atomic_load(hak_internal_copies());
  atomic_store(hak_internal_copies(), &copy);
  CHECK(hak_malloc_usable_size(their_blocks[0]) == sizeof their_blocks[0]);
  CHECK(hak_realloc(their_blocks[0], 50) == their_blocks[1]);
  hak_free(their_blocks[1]);
  CHECK(freed == 1);
  CHECK(!hak_foreign_free(&freed));
}

static void nobody_owns_the_rest(void) {
  void *result;
  size_t bytes;
  int local = 0;
  CHECK(!hak_foreign_free(&local) && !hak_foreign_free(NULL));
  CHECK(!hak_foreign_realloc(&local, 10, &result));
  CHECK(!hak_foreign_usable(&local, &bytes));
}

static int global;

static void free_global(void) {
  hak_free(&global);
}

#ifdef HAK_TEST_LIBC_MALLOC
/* Above the program break at start-up: what libc allocates now. */
static void *libc_block(void) {
  static void *blocks[1000];
  size_t i = 0;
  do {
    CHECK(i < sizeof blocks / sizeof blocks[0]);
    blocks[i] = malloc(10000);
    CHECK(blocks[i] != NULL);
  } while (!hak_foreign_usable(blocks[i++], &(size_t){0}));
  return blocks[i - 1];
}

static void libc_serves_its_blocks(void) {
  size_t bytes = 0;
  char *block = libc_block();
  CHECK(hak_foreign_usable(block, &bytes) && bytes >= 10000 && hak_malloc_usable_size(block) == bytes);
  memcpy(block, "text", sizeof "text");
  block = hak_realloc(block, 20000);
  CHECK(block != NULL && strcmp(block, "text") == 0 && hak_malloc_usable_size(block) >= 20000);
  hak_free(block);
}
#endif

int main(void) {
  child_succeeds(nobody_owns_the_rest);
  child_succeeds(another_copy_serves_its_blocks);
  child_is_stopped(free_global, "free", "invalid pointer", &global);
#ifdef HAK_TEST_LIBC_MALLOC
  child_succeeds(libc_serves_its_blocks);
#endif
  return 0;
}
