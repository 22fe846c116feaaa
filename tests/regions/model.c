/* Random calls on several regions, against a model: contents, sizes, counts and owners are right after each step. */
#include "check.h"
#include "hakmem.h"
#include "pattern.h"
#include "prng.h"

#include <stdint.h>
#include <string.h>

enum { REGIONS = 5, BLOCKS = 400, STEPS = 60000, WALKS = 97 };

typedef struct {
  void *block;
  size_t bytes;
  int owner; /* number of its region; -1: an ordinary block */
  uint64_t tag;
} Known;

static Known known[BLOCKS];
static hak_region_t *regions[REGIONS];
static Prng prng;
static uint64_t tags;

static size_t any_size(void) {
  switch (prng_next(&prng) % 16) {
  case 0:
    return prng_next(&prng) % 200000;
  case 1:
    return prng_next(&prng) % (3 << 20);
  case 2:
    return prng_next(&prng) % 20000;
  default:
    return prng_next(&prng) % 600;
  }
}

static void note(Known *each, void *block, size_t bytes, int owner) {
  CHECK(block != NULL && (uintptr_t)block % 16 == 0);
  CHECK(hak_malloc_usable_size(block) >= bytes);
  *each = (Known){block, bytes, owner, ++tags};
  pattern_fill(block, bytes, each->tag);
  CHECK(hak_region_of(block) == (owner < 0 ? NULL : regions[owner]));
  unsigned use = hak_utilisation(block);
  CHECK(use <= 100);
}

static void expect_content(const Known *each) {
  CHECK(pattern_holds(each->block, each->bytes, each->bytes, each->tag));
}

static void make(Known *each) {
  int owner = (int)(prng_next(&prng) % REGIONS);
  size_t bytes = any_size(), align = (size_t)16 << prng_next(&prng) % 18;
  switch (prng_next(&prng) % 6) {
  case 0: {
    unsigned char *block = hak_region_calloc(regions[owner], 1, bytes);
    CHECK(all_zero(block, bytes));
    note(each, block, bytes, owner);
    break;
  }
  case 1: {
    void *block = hak_region_aligned_alloc(regions[owner], align, bytes);
    CHECK((uintptr_t)block % align == 0);
    note(each, block, bytes, owner);
    break;
  }
  case 2: {
    CHECK(hak_region_enter(regions[owner]));
    void *block = hak_malloc(bytes | 1);
    hak_region_leave(regions[owner]);
    note(each, block, bytes | 1, owner);
    break;
  }
  default:
    note(each, hak_region_malloc(regions[owner], bytes), bytes, owner);
  }
}

static void resize(Known *each) {
  size_t bytes = any_size() + 1, keep = bytes < each->bytes ? bytes : each->bytes;
  int owner = each->owner;
  void *fresh;
  if (prng_next(&prng) % 4 == 0) {
    owner = (int)(prng_next(&prng) % REGIONS);
    fresh = hak_region_realloc(regions[owner], each->block, bytes);
  } else {
    fresh = hak_realloc(each->block, bytes);
  }
  CHECK(fresh != NULL && pattern_holds(fresh, keep, each->bytes, each->tag));
  note(each, fresh, bytes, owner);
}

static void forget(int owner) {
  for (int i = 0; i < BLOCKS; i++) {
    if (known[i].block && known[i].owner == owner) {
      expect_content(&known[i]);
      known[i].block = NULL;
    }
  }
}

static int count_block(void *block, size_t bytes, void *context) {
  size_t *sums = context;
  CHECK(hak_malloc_usable_size(block) == bytes);
  sums[0]++;
  sums[1] += bytes;
  return 0;
}

static void expect_counts(int owner) {
  hak_region_usage_t usage;
  size_t sums[2] = {0, 0}, blocks = 0, bytes = 0;
  CHECK(hak_region_usage(regions[owner], &usage));
  CHECK(hak_region_walk(regions[owner], count_block, sums) == 0);
  for (int i = 0; i < BLOCKS; i++) {
    if (known[i].block && known[i].owner == owner) {
      blocks++;
      bytes += hak_malloc_usable_size(known[i].block);
    }
  }
  CHECK(usage.live_blocks == blocks && usage.live_bytes == bytes);
  CHECK(sums[0] == blocks && sums[1] == bytes);
  CHECK(usage.used_bytes >= usage.live_bytes && usage.peak_bytes >= usage.used_bytes);
  CHECK(usage.allocated_bytes - usage.freed_bytes == usage.live_bytes);
}

static void end_region(int owner) {
  switch (prng_next(&prng) % 4) {
  case 0:
    forget(owner);
    hak_region_destroy(regions[owner]);
    break;
  case 1: /* its blocks become ordinary ones */
    for (int i = 0; i < BLOCKS; i++) {
      known[i].owner = known[i].owner == owner ? -1 : known[i].owner;
    }
    hak_region_release(regions[owner]);
    break;
  case 2:
    hak_region_retire(regions[owner]);
    CHECK(hak_region_malloc(regions[owner], 1) == NULL);
    for (int i = 0; i < BLOCKS; i++) {
      if (known[i].block && known[i].owner == owner) {
        expect_content(&known[i]);
        hak_free(known[i].block);
        known[i].block = NULL;
      }
    }
    break;
  default:
    forget(owner);
    hak_region_reset(regions[owner]);
    return;
  }
  hak_region_usage_t usage;
  CHECK(!hak_region_usage(regions[owner], &usage));
  regions[owner] = hak_region_new(NULL);
  CHECK(regions[owner] != NULL);
}

/* A retired region without blocks is gone at once, so one block keeps it for the check above. */
static void keep_one(int owner) {
  for (int i = 0; i < BLOCKS; i++) {
    if (known[i].block && known[i].owner == owner) {
      return;
    }
  }
  Known *each = &known[prng_next(&prng) % BLOCKS];
  hak_free(each->block);
  note(each, hak_region_malloc(regions[owner], 24), 24, owner);
}

int main(int argc, char **argv) {
  prng = prng_seeded(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
  for (int i = 0; i < REGIONS; i++) {
    CHECK((regions[i] = hak_region_new(NULL)) != NULL);
  }
  for (int step = 0; step < STEPS; step++) {
    Known *each = &known[prng_next(&prng) % BLOCKS];
    int owner = (int)(prng_next(&prng) % REGIONS);
    if (prng_next(&prng) % 997 == 0) {
      keep_one(owner);
      end_region(owner);
    } else if (!each->block) {
      make(each);
    } else if (prng_next(&prng) % 4 == 0) {
      expect_content(each);
      resize(each);
    } else {
      expect_content(each);
      hak_free(each->block);
      each->block = NULL;
    }
    if (step % WALKS == 0) {
      expect_counts(owner);
      hak_check();
    }
  }
  return 0;
}
