/* Blocks of another copy of the library, and of libc's own heap. This program says that malloc is overridden, as the
 * override libraries do, so that such blocks may come here. */
#include "malloc/foreign.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "hakmem.h"

extern const bool hak_override_present;
const bool hak_override_present = true;

/* The layout of the record, which all versions share, as in foreign.c. */
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

static void load_another_copy(void) {
  static Copy copy = {NULL, they_own, they_free, they_realloc, they_know_usable};
  copy.next = atomic_load(hak_internal_copies());
  atomic_store(hak_internal_copies(), &copy);
}

static void another_copy_serves_its_blocks(void) {
  CHECK(hak_realloc(hak_malloc(10), 20) != NULL);
  load_another_copy();
  CHECK(hak_malloc_usable_size(their_blocks[0]) == sizeof their_blocks[0]);
  CHECK(hak_realloc(their_blocks[0], 50) == their_blocks[1]);
  hak_free(their_blocks[1]);
  CHECK(freed == 1);
  CHECK(hak_foreign_owner(their_blocks[0], "test")->owns == they_own);
}

static int global;

static void free_global(void) {
  hak_free(&global);
}

static void free_what_no_copy_owns(void) {
  load_another_copy();
  hak_free(&global);
}

static void realloc_global(void) {
  (void)hak_realloc(&global, 10);
}

static void ask_for_global(void) {
  (void)hak_malloc_usable_size(&global);
}

#ifdef HAK_TEST_LIBC_MALLOC
/* A block of libc above the start-up value of the program break. */
static char *libc_block(void) {
  static char *blocks[1000]; /* never freed */
  const char *before = sbrk(0);
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
    blocks[i] = malloc(10000);
    CHECK(blocks[i] != NULL);
    if (blocks[i] >= before && blocks[i] < (char *)sbrk(0)) {
      return blocks[i];
    }
  }
  return NULL;
}

static void libc_serves_its_blocks(void) {
  char *block = libc_block();
  CHECK(block != NULL && hak_malloc_usable_size(block) >= 10000);
  memcpy(block, "text", sizeof "text");
  block = hak_realloc(block, 20000);
  CHECK(block != NULL && strcmp(block, "text") == 0 && hak_malloc_usable_size(block) >= 20000);
  hak_free(block);
}
#endif

int main(void) {
  child_succeeds(another_copy_serves_its_blocks);
  child_is_stopped(free_global, "free", "invalid pointer", &global);
  child_is_stopped(free_what_no_copy_owns, "free", "invalid pointer", &global);
  child_is_stopped(realloc_global, "realloc", "invalid pointer", &global);
  child_is_stopped(ask_for_global, "malloc_usable_size", "invalid pointer", &global);
#ifdef HAK_TEST_LIBC_MALLOC
  child_succeeds(libc_serves_its_blocks);
#endif
  return 0;
}
