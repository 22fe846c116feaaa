/* In a large heap, sparsely touched, a huge request is served without a visit to the whole heap. The test counts the
 * pages that the kernel marked as referenced. Pages of files do not count: all processes that map the file share the
 * mark, and it is set again when one of them ends. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "trap.h"

enum { BLOCKS_MAX = 12000, BLOCKS_MIN = 4000, REQUESTS = 8, PAGES_MAX = 48, PAGE_KIB = 4, TRIES = 5 };
#define BLOCK_BYTES ((size_t)8 << 20)

static char *blocks[BLOCKS_MAX];

typedef struct {
  size_t kib;
  bool of_file; /* whether the lines being read belong to a mapping of a file */
} Referenced;

static void add_referenced(const char *line, void *argument) {
  Referenced *referenced = argument;
  unsigned long inode;
  if (sscanf(line, "%*x-%*x %*s %*x %*x:%*x %lu", &inode) == 1) {
    referenced->of_file = inode != 0;
  } else if (!referenced->of_file && strncmp(line, "Referenced:", 11) == 0) {
    referenced->kib += strtoul(line + 11, NULL, 10);
  }
}

static size_t referenced_pages(void) {
  Referenced referenced = {0, false};
  trap_each_line("/proc/self/smaps", add_referenced, &referenced);
  return referenced.kib / PAGE_KIB;
}

static void forget_references(void) {
  int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, "1", 1) != 1) {
    trap_skip("/proc/self/clear_refs cannot be written");
  }
  close(file);
}

/* Sizes from 2 to 7 MiB; none of their pages is touched. */
static void request(void) {
  for (size_t i = 0; i < REQUESTS; i++) {
    char *block = hak_malloc(((size_t)2 << 20) + i * (700 << 10));
    CHECK(block != NULL);
    hak_free(block);
  }
}

/* The least count of several tries, since the kernel may touch pages as well. */
static size_t pages_of(void (*act)(void)) {
  size_t fewest = SIZE_MAX;
  for (int i = 0; i < TRIES; i++) {
    forget_references();
    act();
    size_t pages = referenced_pages();
    fewest = pages < fewest ? pages : fewest;
  }
  return fewest;
}

static void nothing(void) {}

static size_t fill(void) {
  size_t count = 0;
  while (count < BLOCKS_MAX && (blocks[count] = hak_malloc(BLOCK_BYTES)) != NULL) {
    count++;
  }
  return count;
}

static void compare(const char *what) {
  request();
  size_t without = pages_of(nothing), with = pages_of(request);
  printf("%s: %zu pages referenced by %d requests, %zu by none\n", what, with, REQUESTS, without);
  CHECK(with <= without + PAGES_MAX);
}

int main(void) {
  trap_watchdog(60);
  size_t count = fill();
  if (count < BLOCKS_MIN) {
    trap_skip("the system gives too little address space");
  }
  for (size_t i = 0; i < count; i += 100) {
    blocks[i][0] = blocks[i][BLOCK_BYTES - 1] = (char)i;
  }
  compare("full heap");
  for (size_t i = 1; i < count; i += 100) { /* holes all over the heap */
    hak_free(blocks[i]);
  }
  compare("heap with holes");
  for (size_t i = 0; i < count; i++) {
    if (i % 100 == 0) {
      CHECK(blocks[i][0] == (char)i && blocks[i][BLOCK_BYTES - 1] == (char)i);
    }
    if (i % 100 != 1) {
      hak_free(blocks[i]);
    }
  }
  HAK(hak_check)();
  return 0;
}
