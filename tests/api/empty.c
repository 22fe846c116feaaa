/* Blocks of no bytes: each has an address of its own, and any use of it is a fault. With HAKMEM_TRAP_EMPTY=0, or if all
 * such addresses are taken, the program gets an ordinary block instead. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "names.h"
#include "pattern.h"

enum {
  WAYS = 8,
  MANY = 70000,
  TRAPPED_MOST = 65536,
};

static bool trapping;
static void *blocks[MANY];

static void *make(size_t way) {
  void *block = NULL;
  switch (way % WAYS) {
  case 0:
    return hak_malloc(0);
  case 1:
    return hak_calloc(0, 7);
  case 2:
    return hak_calloc(7, 0);
  case 3:
    return hak_realloc(NULL, 0);
  case 4:
    return hak_reallocarray(NULL, 0, 5);
  case 5:
    return hak_aligned_alloc(16, 0);
  case 6:
    return hak_memalign(1, 0);
  default:
    CHECK(hak_posix_memalign(&block, 8, 0) == 0);
    return block;
  }
}

static void drop(size_t way, void *block) {
  switch (way % 4) {
  case 0:
    hak_free(block);
    break;
  case 1:
    hak_free_sized(block, 0);
    break;
  case 2:
    hak_free_aligned_sized(block, 16, 0);
    break;
  default:
    CHECK(hak_realloc(block, 0) == NULL);
  }
}

static int by_address(const void *a, const void *b) {
  uintptr_t one = *(const uintptr_t *)a, other = *(const uintptr_t *)b;
  return one < other ? -1 : one > other;
}

static void all_differ(size_t count) {
  static void *sorted[MANY];
  memcpy(sorted, blocks, count * sizeof *blocks);
  qsort(sorted, count, sizeof *sorted, by_address);
  for (size_t i = 0; i < count; i++) {
    CHECK(sorted[i] != NULL && (uintptr_t)sorted[i] % 16 == 0 && (i == 0 || sorted[i] != sorted[i - 1]));
  }
}

static void *any_block(void) {
  void *block = hak_malloc(0);
  CHECK(block != NULL && hak_malloc_usable_size(block) == (trapping ? 0 : 16));
  return block;
}

static void every_way_gives_one(void) {
  for (size_t i = 0; i < 1000; i++) {
    errno = EDOM;
    blocks[i] = make(i);
    CHECK(errno == EDOM && hak_malloc_usable_size(blocks[i]) == (trapping ? 0 : 16));
  }
  all_differ(1000);
  for (size_t i = 0; i < 1000; i++) {
    errno = EDOM;
    drop(i / WAYS, blocks[i]);
    CHECK(errno == EDOM);
  }
}

static void in_child(void (*body)(void *block), void *block, int signal_expected) {
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0 && signal(SIGSEGV, SIG_DFL) != SIG_ERR); /* a sanitizer sets one */
    body(block);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(signal_expected ? WIFSIGNALED(status) && WTERMSIG(status) == signal_expected : status == 0);
}

static void read_byte(void *block) {
  (void)*(volatile char *)hide_pointer(block);
}

static void write_byte(void *block) {
  *(volatile char *)hide_pointer(block) = 1;
}

static void any_use_is_a_fault(void) {
  for (size_t way = 0; way < WAYS; way++) {
    blocks[way] = make(way);
    in_child(read_byte, blocks[way], trapping ? SIGSEGV : 0);
    in_child(write_byte, blocks[way], trapping ? SIGSEGV : 0);
  }
  for (size_t way = 0; way < WAYS; way++) {
    hak_free(blocks[way]);
  }
}

static void realloc_gives_them_bytes(void) {
  static const size_t sizes[] = {1, 16, 100, 5000, 41000, 200000, 3 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *empty = any_block();
    errno = EDOM;
    void *block = hak_realloc(empty, sizes[i]);
    CHECK(block != NULL && errno == EDOM && hak_malloc_usable_size(block) >= sizes[i]);
    pattern_fill(block, sizes[i], i);
    CHECK(pattern_holds(block, sizes[i], sizes[i], i));
    CHECK(hak_realloc(block, 0) == NULL);
  }
}

static void a_refused_realloc_leaves_one(void) {
  static const size_t impossible[] = {SIZE_MAX, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX - 4096};
  void *empty = any_block();
  for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
    errno = 0;
    CHECK(hak_realloc(empty, hide_size(impossible[i])) == NULL && errno == ENOMEM);
    CHECK(hak_malloc_usable_size(empty) == (trapping ? 0 : 16));
  }
  hak_free(empty);
}

/* The later ones are ordinary blocks, which may be used. */
static void there_are_always_more(void) {
  size_t trapped = 0;
  for (size_t round = 0; round < 2; round++) {
    trapped = 0;
    for (size_t i = 0; i < MANY; i++) {
      blocks[i] = make(i);
      size_t usable = hak_malloc_usable_size(blocks[i]);
      CHECK(usable == 0 || usable == 16);
      memset(blocks[i], 'x', usable);
      trapped += usable == 0;
    }
    all_differ(MANY);
    CHECK(trapped == (trapping ? TRAPPED_MOST : 0));
    for (size_t i = 0; i < MANY; i++) {
      drop(i / 7, blocks[i * 7919 % MANY]);
    }
  }
}

static void aligned_ones_are_ordinary(void) {
  for (size_t alignment = 32; alignment <= 1 << 20; alignment *= 2) {
    void *one = hak_aligned_alloc(alignment, 0), *other = NULL;
    CHECK(hak_posix_memalign(&other, alignment, 0) == 0 && one != NULL && other != NULL && one != other);
    CHECK((uintptr_t)one % alignment == 0 && (uintptr_t)other % alignment == 0);
    memset(one, 'x', hak_malloc_usable_size(one));
    hak_free(one);
    hak_free_aligned_sized(other, alignment, 0);
  }
}

static void free_and_make(void *block) {
  hak_free(block);
  void *own = any_block();
  CHECK(own != blocks[1]);
  hak_free(blocks[1]);
  hak_free(own);
  hak_check();
}

static void a_child_has_its_parents(void) {
  blocks[0] = any_block();
  blocks[1] = any_block();
  in_child(free_and_make, blocks[0], 0);
  blocks[2] = any_block();
  all_differ(3);
  for (int i = 0; i < 3; i++) {
    hak_free(blocks[i]);
  }
}

int main(void) {
  char value[8];
  CHECK(hak_option_get("TRAP_EMPTY", value, sizeof value) == 0);
  trapping = strcmp(value, "1") == 0;
  every_way_gives_one();
  any_use_is_a_fault();
  realloc_gives_them_bytes();
  a_refused_realloc_leaves_one();
  there_are_always_more();
  aligned_ones_are_ordinary();
  a_child_has_its_parents();
  hak_check();
  return 0;
}
