/* The region of the whole process: its limits, its callback, and its use in place of a region. */
#include "check.h"
#include "hakmem.h"
#include "pattern.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

enum { MIB = 1 << 20, LIMIT = 64 * MIB, BLOCKS = 70000 };

static hak_region_t *process;
static void *blocks[BLOCKS];
static size_t count;

static hak_region_usage_t usage(void) {
  hak_region_usage_t found;
  CHECK(hak_region_usage(process, &found));
  return found;
}

static void *request(hak_region_t *region, size_t bytes) {
  return region ? hak_region_malloc(region, bytes) : hak_malloc(bytes);
}

/* Until a request is refused. */
static size_t fill(hak_region_t *region, size_t bytes) {
  errno = 0;
  while (count < BLOCKS && (blocks[count] = request(region, bytes)) != NULL) {
    memset(blocks[count++], 1, bytes < 4096 ? bytes : 4096);
    CHECK(usage().live_bytes <= usage().peak_bytes);
  }
  CHECK(count < BLOCKS && errno == ENOMEM);
  return count * bytes;
}

static void empty(void) {
  while (count > 0) {
    hak_free(blocks[--count]);
  }
}

static void hard_limit(void) {
  char text[32];
  hak_region_limit(process, 0, LIMIT);
  CHECK(hak_option_get("MEMORY_LIMIT", text, sizeof text) == 0 && strcmp(text, "67108864") == 0);
  hak_region_t *region = hak_region_new(&(hak_region_options_t){.parent = process});
  for (size_t bytes = 1000; bytes <= 10 * MIB; bytes *= 100) {
    CHECK(fill(NULL, bytes) >= LIMIT * 3 / 4 && usage().used_bytes <= LIMIT && usage().limit_bytes == LIMIT);
    CHECK(usage().live_bytes > LIMIT * 3 / 4);
    empty(); /* much is in this thread's cache, from which a region's request gets it */
    CHECK(fill(region, bytes) >= LIMIT * 3 / 4 && usage().used_bytes <= LIMIT);
    empty();
    CHECK(hak_region_enter(region));
    CHECK(fill(NULL, bytes) >= LIMIT * 3 / 4 && hak_region_of(blocks[0]) == region);
    hak_region_leave(region);
    empty();
  }
  CHECK(usage().peak_bytes > LIMIT * 3 / 4 && usage().peak_bytes <= LIMIT);
  hak_region_destroy(region);
}

static struct {
  int soft, hard;
  bool answer;
  void *reserve;
} asked;

static bool on_limit(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit, void *user) {
  CHECK(region == process && user == &asked && bytes > 0);
  *(limit == HAK_REGION_SOFT ? &asked.soft : &asked.hard) += 1;
  void *mine = hak_malloc(100000); /* it may allocate, and is not called meanwhile */
  hak_free(mine);
  if (limit == HAK_REGION_HARD && asked.reserve) {
    hak_free(asked.reserve);
    asked.reserve = NULL;
    return true;
  }
  return asked.answer;
}

static void a_reserve(hak_region_t *region) {
  hak_region_limit(process, 0, LIMIT);
  hak_region_on_limit(process, on_limit, &asked);
  asked.soft = asked.hard = 0;
  asked.answer = false;
  CHECK((asked.reserve = hak_malloc(10 * MIB)) != NULL);
  size_t filled = fill(region, 100000);
  CHECK(asked.hard == 2 && asked.soft == 0 && !asked.reserve && filled > LIMIT * 3 / 4);
  errno = 0;
  CHECK(hak_realloc(blocks[0], 30 * MIB) == NULL && errno == ENOMEM && asked.hard == 3);
  CHECK(hak_malloc(hide_size(PTRDIFF_MAX)) == NULL && hak_malloc(2 * LIMIT) == NULL && asked.hard == 3);
  empty();
}

static void soft_limit(hak_region_t *region) {
  hak_region_limit(process, LIMIT / 2, LIMIT);
  asked.soft = asked.hard = 0;
  asked.answer = false;
  CHECK(fill(region, 100000) <= LIMIT / 2 && asked.soft == 1 && asked.hard == 0);
  CHECK(usage().used_bytes <= LIMIT / 2 + MIB);
  char *grows = blocks[0];
  size_t had = hak_malloc_usable_size(grows);
  if (!region) {
    CHECK(hak_realloc(grows, 8 * MIB) == NULL && asked.soft >= 2);
    CHECK(hak_malloc_usable_size(grows) == had);
  }
  asked.answer = true;
  asked.soft = 0;
  CHECK((blocks[0] = hak_realloc(grows, 8 * MIB)) != NULL && asked.soft > 0);
  asked.answer = false;
  empty();
  hak_region_limit(process, LIMIT / 2, 0);
  asked.answer = true;
  for (count = 0; count < LIMIT / 100000; count++) {
    CHECK((blocks[count] = request(region, 100000)) != NULL);
  }
  CHECK(asked.hard == 0);
  empty();
}

/* As a region, it is the ordinary heap. */
static void in_place_of_a_region(void) {
  hak_region_limit(process, 0, 0);
  CHECK(strcmp(hak_region_name(process), "process") == 0 && usage().limit_bytes == 0);
  hak_region_t *region = hak_region_new(NULL);
  char *block = hak_region_malloc(process, 100), *zeros = hak_region_calloc(process, 10, 10);
  void *aligned = hak_region_aligned_alloc(process, 4096, 10), *other = hak_region_malloc(region, 5000);
  CHECK(hak_region_of(block) == NULL && hak_region_of(zeros) == NULL && (uintptr_t)aligned % 4096 == 0);
  memset(block, 7, 100);
  CHECK(zeros[0] == 0 && zeros[99] == 0 && (block = hak_region_realloc(process, block, 5000)) != NULL &&
        block[99] == 7);
  CHECK((other = hak_region_realloc(process, other, 6000)) != NULL && hak_region_of(other) == NULL);
  CHECK(hak_region_enter(process));
  hak_free(block);
  CHECK(hak_region_of(block = hak_malloc(10)) == NULL && hak_region_enter(region) && hak_region_enter(process));
  hak_free(block);
  CHECK(hak_region_of(block = hak_malloc(10)) == NULL);
  void *large = hak_malloc(3 * MIB);
  CHECK(large && hak_region_of(large) == NULL);
  hak_free(large);
  hak_region_leave(process);
  void *inside = hak_malloc(10);
  CHECK(hak_region_of(inside) == region);
  hak_region_leave(region);
  hak_region_leave(process);
  hak_free(block);
  hak_free(zeros);
  hak_free(aligned);
  hak_free(other);
  hak_region_destroy(region);
  hak_check();
}

int main(void) {
  process = hak_region_process();
  hard_limit();
  a_reserve(NULL);
  soft_limit(NULL);
  hak_region_t *region = hak_region_new(NULL);
  a_reserve(region);
  soft_limit(region);
  hak_region_on_limit(process, NULL, NULL);
  in_place_of_a_region();
  return 0;
}
