/* The extensions of glibc's <malloc.h>: they must report on this heap, not on libc's unused one. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "names.h"

enum { BLOCKS = 10000, BLOCK_BYTES = 1000 };
static void *blocks[BLOCKS];

static void make_blocks(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(BLOCK_BYTES);
    CHECK(blocks[i] != NULL);
  }
}

static void drop_blocks(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    free(blocks[i]);
  }
}

/* The figures may leave something out; half of the bytes is a generous margin. */
static void mallinfo_sees_the_blocks(void) {
  struct mallinfo2 before = mallinfo2();
  make_blocks();
  struct mallinfo2 during = mallinfo2();
  CHECK(during.uordblks >= before.uordblks + (size_t)BLOCKS * BLOCK_BYTES / 2);
  CHECK(during.arena + during.hblkhd >= during.uordblks);
  drop_blocks();
  struct mallinfo2 after = mallinfo2();
  CHECK(after.uordblks + (size_t)BLOCKS * BLOCK_BYTES / 2 <= during.uordblks);
}

static void mallinfo_counts_a_large_block_once(void) {
  enum { LARGE = 5 << 20 };
  struct mallinfo2 before = mallinfo2();
  void *large = malloc(LARGE);
  CHECK(large != NULL);
  struct mallinfo2 during = mallinfo2();
  CHECK(during.hblks == before.hblks + 1 && during.hblkhd >= before.hblkhd + LARGE);
  CHECK(during.uordblks < before.uordblks + LARGE / 5 && during.arena < before.arena + LARGE / 5);
  free(large);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void the_old_mallinfo_agrees(void) {
  make_blocks();
  struct mallinfo narrow = mallinfo();
  struct mallinfo2 wide = mallinfo2();
  CHECK(narrow.uordblks >= BLOCKS * BLOCK_BYTES / 2);
  CHECK((size_t)narrow.uordblks <= wide.uordblks + (1 << 20));
  CHECK(wide.uordblks <= (size_t)narrow.uordblks + (1 << 20));
  drop_blocks();
}
#pragma GCC diagnostic pop

static void malloc_info_writes_xml(void) {
  static char text[1 << 20];
  FILE *file = tmpfile();
  CHECK(file != NULL);
  CHECK(malloc_info(0, file) == 0);
  rewind(file);
  size_t length = fread(text, 1, sizeof text - 1, file);
  CHECK(length > 0);
  text[length] = '\0';
  CHECK(strncmp(text, "<malloc version=\"", 17) == 0);
  CHECK(strstr(text, "</malloc>") != NULL);
  CHECK(fclose(file) == 0);
}

static void malloc_info_refuses_options(void) {
  for (int options = -1; options <= 1; options += 2) {
    errno = 0;
    CHECK(malloc_info(options, stdout) == EINVAL && errno == EINVAL);
  }
}

static void trim_gives_memory_back_once(void) {
  make_blocks();
  for (size_t i = 0; i < BLOCKS; i++) {
    memset(blocks[i], 1, BLOCK_BYTES);
  }
  drop_blocks();
  CHECK(malloc_trim(0) == 1);
  CHECK(malloc_trim(0) == 0);
}

/* Half of the blocks are in use, and whole pages between them are free. */
static void trim_gives_back_what_lies_between(void) {
  enum { COUNT = 1000, LARGER = 20000 };
  unsigned char resident[LARGER / 1024];
  size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 0;
  for (size_t i = 0; i < COUNT; i++) {
    blocks[i] = malloc(LARGER);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, LARGER);
  }
  for (size_t i = 1; i < COUNT; i += 2) {
    free(blocks[i]);
  }
  CHECK(malloc_trim(0) == 1);
  for (size_t i = 1; i < COUNT; i += 2) {
    char *from = (char *)((uintptr_t)blocks[i] + page - 1 - ((uintptr_t)blocks[i] + page - 1) % page);
    size_t count = ((uintptr_t)blocks[i] + LARGER - (uintptr_t)from) / page;
    if (mincore(from, count * page, resident) == 0) {
      for (size_t k = 0; k < count; k++) {
        pages += resident[k] & 1;
      }
    }
  }
  CHECK(pages * page <= (size_t)COUNT / 2 * LARGER / 20); /* a bin, or another thread's cache, may keep this much */
  CHECK(malloc_trim(0) == 0);
  for (size_t i = 0; i < COUNT; i += 2) {
    for (size_t k = 0; k < LARGER; k++) {
      CHECK(((unsigned char *)blocks[i])[k] == 1);
    }
    free(blocks[i]);
  }
}

/* malloc must be the library's; otherwise the other tests of these names would test glibc. */
static void malloc_is_ours(void) {
  Dl_info ours, found;
  void *(*volatile malloc_address)(size_t) = malloc;
  int (*volatile version_address)(void) = hak_version;
  CHECK(dladdr((void *)malloc_address, &found) != 0);
  CHECK(dladdr((void *)version_address, &ours) != 0);
  CHECK(ours.dli_fbase == found.dli_fbase);
}

int main(void) {
  malloc_is_ours();
  mallinfo_sees_the_blocks();
  mallinfo_counts_a_large_block_once();
  the_old_mallinfo_agrees();
  malloc_info_writes_xml();
  malloc_info_refuses_options();
  trim_gives_memory_back_once();
  trim_gives_back_what_lies_between();
  malloc_stats();
  return 0;
}
