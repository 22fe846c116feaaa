/* Limits of regions: what counts, who is asked, who is refused; and memory that the program gave. */
#include "check.h"
#include "hakmem.h"
#include "pattern.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { MIB = 1 << 20, BLOCKS = 100000 };

static void *blocks[BLOCKS];

static size_t used(const hak_region_t *region) {
  hak_region_usage_t usage;
  CHECK(hak_region_usage(region, &usage));
  return usage.used_bytes;
}

static size_t fill(hak_region_t *region, size_t bytes) {
  size_t count = 0;
  errno = 0;
  while (count < BLOCKS && (blocks[count] = hak_region_malloc(region, bytes)) != NULL) {
    memset(blocks[count++], 1, bytes);
  }
  CHECK(count < BLOCKS && errno == ENOMEM);
  return count;
}

static void hard_limit(void) {
  static const size_t sizes[] = {16, 100, 1000, 16000, 20000, 100000, 900000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    hak_region_t *region = hak_region_new(&(hak_region_options_t){.name = "small", .hard_limit = MIB});
    size_t count = fill(region, sizes[i]);
    CHECK(used(region) <= MIB);
    CHECK(count * sizes[i] >= MIB / 2); /* what it keeps for itself is little */
    void *ordinary = hak_malloc(MIB);   /* the limit is the region's alone */
    CHECK(ordinary != NULL);
    hak_free(ordinary);
    hak_free(blocks[--count]);
    CHECK((blocks[count++] = hak_region_malloc(region, sizes[i])) != NULL);
    CHECK(hak_region_realloc(region, blocks[0], 2 * MIB) == NULL && errno == ENOMEM);
    while (count > 0) {
      hak_free(blocks[--count]);
    }
    CHECK(used(region) <= 64 * 1024); /* one span stays */
    hak_region_destroy(region);
  }
}

static void parents(void) {
  hak_region_t *top = hak_region_new(&(hak_region_options_t){.hard_limit = 2 * MIB});
  hak_region_t *left = hak_region_new(&(hak_region_options_t){.parent = top});
  hak_region_t *right = hak_region_new(&(hak_region_options_t){.parent = top, .hard_limit = MIB / 2});
  fill(right, 1000);
  CHECK(used(right) <= MIB / 2 && used(top) == used(right));
  fill(left, 1000);
  CHECK(used(top) <= 2 * MIB && used(top) == used(left) + used(right) && used(left) > MIB);
  size_t was = used(top);
  hak_region_destroy(left);
  CHECK(used(top) < was - MIB);
  hak_region_release(right);
  CHECK(used(top) == 0);
  hak_region_usage_t usage;
  CHECK(hak_region_usage(top, &usage) && usage.peak_bytes >= was && usage.peak_bytes <= 2 * MIB);
  hak_region_destroy(top);
}

typedef struct {
  int soft, hard;
  bool answer;
  hak_region_t *expected;
  void *reserve;
} Asked;

static bool on_limit(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit, void *user) {
  Asked *asked = user;
  CHECK(region == asked->expected && bytes > 0);
  *(limit == HAK_REGION_SOFT ? &asked->soft : &asked->hard) += 1;
  void *mine = hak_region_malloc(region, 32); /* it may allocate, from the same region too, beyond the soft limit */
  hak_free(mine);
  if (limit == HAK_REGION_HARD && asked->reserve) {
    hak_free(asked->reserve);
    asked->reserve = NULL;
    return true;
  }
  return asked->answer;
}

static void callbacks(void) {
  Asked asked = {0, 0, true, NULL, NULL};
  hak_region_options_t options = {.on_limit = on_limit, .user = &asked, .soft_limit = MIB / 2, .hard_limit = MIB};
  hak_region_t *region = asked.expected = hak_region_new(&options);
  hak_region_t *child = hak_region_new(&(hak_region_options_t){.parent = region});
  CHECK((asked.reserve = hak_region_malloc(region, 200000)) != NULL);
  fill(child, 3000);
  CHECK(asked.soft > 0 && asked.hard == 2 && !asked.reserve && used(region) <= MIB && used(region) > MIB - 32768);
  asked = (Asked){0, 0, false, region, NULL};
  hak_region_reset(child);
  hak_region_destroy(child);
  fill(region, 3000);
  CHECK(asked.soft == 1 && asked.hard == 0 && used(region) <= MIB / 2 + 4096); /* refused at the soft limit */
  hak_region_limit(region, 0, 0);
  void *large = hak_region_malloc(region, 8 * MIB);
  CHECK(large != NULL && used(region) > 8 * MIB);
  hak_region_destroy(region);
}

/* A large block that grows meets the same limits as a new one, in place or, where there is no room, as a copy. */
static void growth(void) {
  Asked asked = {0, 0, false, NULL, NULL};
  hak_region_options_t options = {.on_limit = on_limit, .user = &asked, .soft_limit = MIB, .hard_limit = 4 * MIB};
  hak_region_t *region = asked.expected = hak_region_new(&options);
  char *block = hak_region_malloc(region, MIB / 4);
  CHECK((block = hak_realloc(block, MIB / 2)) != NULL && asked.soft == 0);
  memset(block, 7, MIB / 2);
  CHECK(hak_realloc(block, MIB * 5 / 4) == NULL && errno == ENOMEM && asked.soft == 1);
  asked.answer = true;
  CHECK((block = hak_realloc(block, MIB * 5 / 4)) != NULL && asked.soft >= 2);
  int soft = asked.soft;
  CHECK((block = hak_realloc(block, MIB / 2)) != NULL && asked.soft == soft); /* to shrink passes none */
  hak_region_limit(region, 0, 4 * MIB);
  CHECK((asked.reserve = hak_region_malloc(region, 2 * MIB)) != NULL);
  CHECK((block = hak_realloc(block, 3 * MIB)) != NULL && asked.hard == 1); /* the callback makes room */
  CHECK(!asked.reserve && block[0] == 7 && block[MIB / 2 - 1] == 7 && used(region) <= 4 * MIB);
  hak_region_destroy(region);
}

static size_t resident(const char *from, size_t bytes) {
  unsigned char pages[16];
  size_t count = 0;
  CHECK(bytes / 4096 <= sizeof pages && mincore((void *)(uintptr_t)from, bytes, pages) == 0);
  for (size_t i = 0; i < bytes / 4096; i++) {
    count += pages[i] & 1;
  }
  return count * 4096;
}

/* Large blocks in memory that was in use before count with the pages behind them. */
static void used_again(void) {
  enum { COUNT = 64, SLICES = 32 << 10 };
  hak_region_t *region = hak_region_new(NULL);
  size_t sum = 0;
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = hak_region_malloc(region, SLICES);
    memset(blocks[i], 1, SLICES);
  }
  hak_region_reset(region);
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = hak_region_malloc(region, 17000);
    memset(blocks[i], 1, 17000);
    sum += resident(blocks[i], SLICES);
  }
  CHECK(used(region) >= sum);
  hak_region_destroy(region);
}

static void given(void) {
  static char memory[300000];
  hak_region_options_t options = {.memory = memory + 1, .memory_bytes = sizeof memory - 1};
  hak_region_t *region = hak_region_new(&options);
  CHECK(region != NULL);
  for (size_t align = 16; align <= sizeof memory / 4; align *= 2) {
    char *block = hak_region_aligned_alloc(region, align, 100);
    CHECK(block > memory && block + 100 <= memory + sizeof memory && (uintptr_t)block % align == 0);
    CHECK(hak_region_of(block) == region && hak_region_of(block + 50) == region);
    hak_free(block);
  }
  char *large = hak_region_malloc(region, 200000);
  CHECK(large != NULL && hak_malloc_usable_size(large) >= 200000);
  CHECK((large = hak_realloc(large, 230000)) == NULL); /* both do not fit at once */
  hak_region_reset(region);
  for (size_t bytes = 16; bytes <= 100000; bytes *= 3) {
    size_t count = fill(region, bytes);
    CHECK(count * bytes >= sizeof memory / 2);
    while (count > 0) {
      hak_free(blocks[--count]);
    }
  }
  static const size_t too_much[] = {sizeof memory, (size_t)1 << 36, PTRDIFF_MAX, SIZE_MAX};
  for (size_t i = 0; i < sizeof too_much / sizeof *too_much; i++) {
    errno = 0;
    CHECK(hak_region_malloc(region, hide_size(too_much[i])) == NULL && errno == ENOMEM);
  }
  hak_check();
  hak_region_destroy(region);
  options.memory_bytes = 100;
  errno = 0;
  CHECK(hak_region_new(&options) == NULL && errno == EINVAL);
}

static void two_given(void) {
  static char memory[2][40000];
  hak_region_t *regions[2];
  for (int i = 0; i < 2; i++) {
    regions[i] = hak_region_new(&(hak_region_options_t){.memory = memory[i], .memory_bytes = sizeof memory[i]});
    CHECK(hak_region_malloc(regions[i], 100) != NULL);
  }
  for (int i = 0; i < 2; i++) {
    hak_region_reset(regions[i]);
    char *block = hak_region_malloc(regions[i], 100);
    CHECK(block >= memory[i] && block < memory[i] + sizeof memory[i] && hak_region_of(block) == regions[i]);
  }
  hak_region_destroy(regions[0]);
  hak_region_destroy(regions[1]);
}

/* Once the blocks of a released region are freed, its memory may be used for anything. */
static void given_again(void) {
  static char memory[40000];
  hak_region_options_t options = {.memory = memory, .memory_bytes = sizeof memory};
  hak_region_t *region = hak_region_new(&options);
  void *block = hak_region_malloc(region, 100);
  hak_region_release(region);
  CHECK(hak_region_of(block) == NULL);
  hak_free(block);
  memset(memory, 0xaa, sizeof memory);
  hak_check();
  region = hak_region_new(&options);
  CHECK(hak_region_malloc(region, 100) != NULL);
  hak_check();
  hak_region_destroy(region);
}

/* The counts and the lock of a region are this process's alone. */
static void shared(void) {
  enum { BYTES = 3 * 65536 };
  char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  hak_region_options_t options = {.memory = memory, .memory_bytes = BYTES};
  hak_region_destroy(hak_region_new(&options));
  CHECK(mmap(memory + 65536, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        memory + 65536);
  errno = 0;
  CHECK(hak_region_new(&options) == NULL && errno == ENOTSUP);
  errno = EDOM;
  options.memory_bytes = 65536; /* what is before the shared part, or behind it */
  hak_region_destroy(hak_region_new(&options));
  options.memory = memory + (BYTES - 65536);
  hak_region_destroy(hak_region_new(&options));
  CHECK(errno == EDOM && munmap(memory, BYTES) == 0);
}

static void impossible(void) {
  hak_region_t *region = hak_region_new(NULL);
  static const size_t sizes[] = {PTRDIFF_MAX, SIZE_MAX, SIZE_MAX - 4096, (size_t)1 << 46};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    errno = 0;
    CHECK(hak_region_malloc(region, hide_size(sizes[i])) == NULL && errno == ENOMEM);
    CHECK(hak_region_calloc(region, hide_size(sizes[i]), 2) == NULL);
    CHECK(hak_region_aligned_alloc(region, hide_size((size_t)1 << 62), 16) == NULL);
  }
  char *two_slices = hak_region_malloc(region, 20000); /* others may have the rest of the slab */
  CHECK(hak_region_of(two_slices + 32767) == region && hak_region_of(two_slices + 32768) != region);
  hak_free(two_slices);
  errno = 0;
  CHECK(hak_region_aligned_alloc(region, 24, 16) == NULL && errno == EINVAL);
  errno = 7;
  hak_free(hak_region_malloc(region, 1000));
  CHECK(errno == 7 && used(region) <= 8192);
  hak_region_destroy(region);
}

int main(void) {
  hard_limit();
  parents();
  callbacks();
  growth();
  used_again();
  given();
  two_given();
  given_again();
  shared();
  impossible();
  return 0;
}
