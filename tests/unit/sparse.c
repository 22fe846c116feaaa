/* Copying and zeroing that skip pages of zeros, compared with memcpy and memset, for pages with one nonzero byte. */
#include "pages/arena.h"

#include "check.h"
#include "prng.h"
#include "system/os.h"

#include <string.h>
#include <sys/mman.h>

enum { PAGES = 7, MIXTURES = 4000, OLD = 0x5a };

static char *from, *to, *model;
static size_t page;

static char *mapped(void) {
  void *found = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(found != MAP_FAILED);
  return found;
}

static bool is_resident(char *at) {
  unsigned char there = 0;
  CHECK(mincore(at, page, (void *)&there) == 0);
  return there & 1;
}

/* The old contents of `to` must be overwritten, unless `to` reads as zeros. */
static void copies_as_memcpy(size_t bytes, bool zeroed) {
  memset(to, zeroed ? 0 : OLD, PAGES * page);
  memcpy(model, to, PAGES * page);
  memcpy(model, from, bytes);
  hak_move_copy(to, from, bytes, zeroed);
  CHECK(memcmp(to, model, PAGES * page) == 0);
}

static void one_byte_alone_is_copied(void) {
  for (size_t at = 0; at < page; at++) {
    from[page + at] = 1;
    copies_as_memcpy(3 * page, at % 2 == 0);
    copies_as_memcpy(page + at + 1, at % 2 == 1);
    copies_as_memcpy(page + at, true);
    from[page + at] = 0;
  }
}

static void any_mixture_is_copied(void) {
  Prng prng = prng_seeded(11);
  for (int i = 0; i < MIXTURES; i++) {
    size_t bytes = prng_below(&prng, (uint32_t)(PAGES * page + 1));
    memset(from, 0, PAGES * page);
    for (uint32_t written = prng_below(&prng, 4); written > 0; written--) {
      from[prng_below(&prng, (uint32_t)(PAGES * page))] = (char)(1 + prng_below(&prng, 255));
    }
    copies_as_memcpy(bytes, i % 2 == 0);
  }
}

static void pages_of_zeros_stay_untouched(void) {
  char *fresh = mapped(), *source = mapped();
  source[2 * page] = 1;
  hak_move_copy(fresh, source, PAGES * page, true);
  hak_move_zero(source, 2 * page);
  for (size_t i = 0; i < PAGES; i++) {
    CHECK(is_resident(fresh + i * page) == (i == 2) && fresh[i * page] == (i == 2));
  }
}

static void one_byte_alone_is_zeroed(void) {
  memset(model, 0, PAGES * page);
  for (size_t at = 0; at < 2 * page; at++) {
    from[at] = 1;
    hak_move_zero(from, at);
    CHECK(from[at] == 1);
    hak_move_zero(from, at + 1);
    CHECK(memcmp(from, model, 3 * page) == 0);
  }
}

int main(void) {
  page = hak_os_page_bytes();
  from = mapped();
  to = mapped();
  model = mapped();
  one_byte_alone_is_copied();
  any_mixture_is_copied();
  memset(from, 0, PAGES * page);
  one_byte_alone_is_zeroed();
  pages_of_zeros_stay_untouched();
  return 0;
}
