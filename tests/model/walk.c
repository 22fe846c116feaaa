#include "walk.h"

#include <errno.h>

#include "check.h"
#include "names.h"
#include "pattern.h"

#define LARGE_BYTES ((size_t)128 << 10)

static struct {
  pthread_mutex_t mutex;
  Slot slot;
} exchange[EXCHANGE_SLOTS];

/* Sizes like those of real programs, by one draw of 1024, with enough rare sizes to reach every path. */
static size_t random_bytes(Walker *walker) {
  Prng *prng = &walker->prng;
  uint32_t draw = prng_below(prng, 1024);
  if (draw < 700) {
    return prng_below(prng, 129);
  }
  if (draw < 950) {
    return prng_below(prng, 1041);
  }
  if (draw < 1010) {
    return prng_below(prng, 8193);
  }
  if (draw < 1022 || walker->large_blocks >= WALK_LARGE_MAX) {
    return prng_below(prng, 65537);
  }
  return prng_below(prng, 16) == 0 ? prng_below(prng, 8 << 20) : prng_below(prng, 1 << 20);
}

static size_t random_alignment(Prng *prng) {
  uint32_t draw = prng_below(prng, 256);
  uint32_t shift = draw < 250 ? prng_below(prng, 8) : draw < 255 ? prng_below(prng, 14) : prng_below(prng, 23);
  return (size_t)1 << shift;
}

static void verify(const Slot *slot) {
  CHECK(pattern_holds(slot->block, slot->bytes, slot->bytes, slot->tag));
}

static void adopt(Walker *walker, Slot *slot, void *block, size_t bytes, size_t alignment) {
  CHECK(block != NULL);
  size_t promised = alignment > 16 ? alignment : 16;
  CHECK((uintptr_t)block % promised == 0);
  CHECK(hak_malloc_usable_size(block) >= bytes);
  *slot = (Slot){.block = block, .bytes = bytes, .alignment = alignment, .tag = prng_next(&walker->prng)};
  pattern_fill(block, bytes, slot->tag);
  walker->large_blocks += bytes >= LARGE_BYTES;
}

static void let_go(Walker *walker, Slot *slot) {
  walker->large_blocks -= slot->bytes >= LARGE_BYTES && walker->large_blocks > 0;
  slot->block = NULL;
}

static void step_allocate_aligned(Walker *walker, Slot *slot) {
  size_t bytes = random_bytes(walker), alignment = random_alignment(&walker->prng);
  void *block = NULL;
  switch (prng_below(&walker->prng, 16)) {
  case 0:
    adopt(walker, slot, hak_valloc(bytes), bytes, 4096);
    break;
  case 1:
    adopt(walker, slot, hak_pvalloc(bytes), bytes, 4096);
    break;
  case 2:
  case 3:
  case 4:
    adopt(walker, slot, hak_memalign(alignment, bytes), bytes, alignment);
    break;
  case 5:
  case 6:
  case 7:
    alignment = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    CHECK(hak_posix_memalign(&block, alignment, bytes) == 0);
    adopt(walker, slot, block, bytes, alignment);
    break;
  default:
    adopt(walker, slot, hak_aligned_alloc(alignment, bytes), bytes, alignment);
  }
}

static void step_allocate(Walker *walker, Slot *slot) {
  uint32_t draw = prng_below(&walker->prng, 64);
  size_t bytes = random_bytes(walker);
  if (draw < 50) {
    adopt(walker, slot, hak_malloc(bytes), bytes, 0);
  } else if (draw < 57) {
    void *block = draw == 50 ? hak_calloc(bytes, 1) : hak_calloc(1, bytes);
    CHECK(block != NULL && all_zero(block, bytes));
    adopt(walker, slot, block, bytes, 0);
  } else if (draw < 61) {
    step_allocate_aligned(walker, slot);
  } else if (draw == 61) {
    adopt(walker, slot, hak_realloc(NULL, bytes), bytes, 0);
  } else {
    adopt(walker, slot, hak_reallocarray(NULL, 3, bytes / 3), bytes / 3 * 3, 0);
  }
}

static void step_free(Walker *walker, Slot *slot) {
  verify(slot);
  uint32_t draw = prng_below(&walker->prng, 8);
  errno = ERANGE;
  if (draw == 0 && slot->alignment == 0) {
    hak_free_sized(slot->block, slot->bytes);
  } else if (draw < 4 && slot->alignment > 0) {
    hak_free_aligned_sized(slot->block, slot->alignment, slot->bytes);
  } else {
    hak_free(slot->block);
  }
  CHECK(errno == ERANGE);
  let_go(walker, slot);
}

static void step_resize(Walker *walker, Slot *slot) {
  Slot old = *slot;
  size_t bytes = prng_below(&walker->prng, 2) ? random_bytes(walker) : old.bytes + prng_below(&walker->prng, 64);
  verify(slot);
  let_go(walker, slot);
  void *block = bytes % 7 == 0 ? hak_reallocarray(old.block, bytes / 7, 7) : hak_realloc(old.block, bytes);
  if (bytes == 0) {
    CHECK(block == NULL);
    return;
  }
  CHECK(block != NULL);
  CHECK(pattern_holds(block, bytes < old.bytes ? bytes : old.bytes, old.bytes, old.tag));
  adopt(walker, slot, block, bytes, 0);
}

static void step_trade(Walker *walker, Slot *slot) {
  size_t at = prng_below(&walker->prng, EXCHANGE_SLOTS);
  Slot mine = *slot;
  if (mine.block != NULL) {
    let_go(walker, slot);
  }
  CHECK(pthread_mutex_lock(&exchange[at].mutex) == 0);
  Slot theirs = exchange[at].slot;
  exchange[at].slot = mine;
  CHECK(pthread_mutex_unlock(&exchange[at].mutex) == 0);
  *slot = theirs;
  if (theirs.block != NULL) {
    verify(slot);
    walker->large_blocks += theirs.bytes >= LARGE_BYTES;
  }
}

/* A request that cannot be served changes nothing. */
static void step_impossible(Walker *walker, Slot *slot) {
  size_t bytes = hide_size(PTRDIFF_MAX - prng_below(&walker->prng, 1 << 20));
  errno = 0;
  CHECK(hak_malloc(bytes) == NULL);
  CHECK(errno == ENOMEM);
  CHECK(hak_calloc(bytes, 3) == NULL);
  CHECK(hak_aligned_alloc(4096, bytes) == NULL);
  if (slot->block != NULL) {
    CHECK(hak_realloc(slot->block, bytes) == NULL);
    verify(slot);
  }
}

static void step_rare(Walker *walker, Slot *slot) {
  char text[256];
  switch (prng_below(&walker->prng, 256)) {
  case 0:
    (void)hak_trim(prng_below(&walker->prng, 1 << 22));
    break;
  case 1:
    CHECK(hak_stats_json(text, sizeof text) > 0);
    break;
  case 2:
    CHECK(hak_option_get("DECAY_MS", text, sizeof text) == 0);
    break;
  case 3:
  case 4:
  case 5:
    hak_thread_flush();
    break;
  default:
    if (slot->block != NULL) {
      size_t usable = hak_malloc_usable_size(slot->block);
      CHECK(usable >= slot->bytes);
      if (usable > 0) { /* a block of no bytes may be without access */
        volatile unsigned char *last = slot->block + usable - 1;
        *last = *last;
      }
    }
    hak_free(NULL);
  }
}

void walk_steps(Walker *walker, uint64_t steps) {
  for (uint64_t i = 0; i < steps; i++) {
    Slot *slot = &walker->slots[prng_below(&walker->prng, WALK_SLOTS)];
    uint32_t draw = prng_below(&walker->prng, 1024);
    if (draw < 60) {
      step_trade(walker, slot);
    } else if (draw < 62) {
      step_rare(walker, slot);
    } else if (draw == 62 && prng_below(&walker->prng, 64) == 0) {
      step_impossible(walker, slot);
    } else if (slot->block == NULL) {
      step_allocate(walker, slot);
    } else if (draw < 120) {
      step_resize(walker, slot);
    } else {
      step_free(walker, slot);
    }
  }
  walker->steps += steps;
}

void walk_init(Walker *walker, uint64_t seed) {
  *walker = (Walker){.prng = prng_seeded(seed)};
}

void walk_exchange_init(void) {
  for (size_t i = 0; i < EXCHANGE_SLOTS; i++) {
    CHECK(pthread_mutex_init(&exchange[i].mutex, NULL) == 0);
  }
}

static int by_address(const void *a, const void *b) {
  const Slot *left = a, *right = b;
  return left->block < right->block ? -1 : left->block > right->block;
}

static size_t gather(Slot *all, size_t count, const Slot *slot) {
  if (slot->block == NULL) {
    return count;
  }
  verify(slot);
  all[count] = *slot;
  return count + 1;
}

void walk_verify_all(Walker *const *walkers, size_t count) {
  /* Not static, and not from the allocator under test: the memory of the test must not affect its heap. */
  size_t most = count * WALK_SLOTS + EXCHANGE_SLOTS, live = 0;
  Slot *all = malloc(most * sizeof *all);
  CHECK(all != NULL);
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < WALK_SLOTS; j++) {
      live = gather(all, live, &walkers[i]->slots[j]);
    }
  }
  for (size_t i = 0; i < EXCHANGE_SLOTS; i++) {
    live = gather(all, live, &exchange[i].slot);
  }
  qsort(all, live, sizeof *all, by_address);
  for (size_t i = 1; i < live; i++) {
    CHECK(all[i - 1].block + all[i - 1].bytes <= all[i].block);
    CHECK(all[i - 1].block < all[i].block);
  }
  free(all);
}

void walk_release(Walker *walker) {
  for (size_t i = 0; i < WALK_SLOTS; i++) {
    if (walker->slots[i].block != NULL) {
      step_free(walker, &walker->slots[i]);
    }
  }
}

void walk_exchange_release(void) {
  for (size_t i = 0; i < EXCHANGE_SLOTS; i++) {
    hak_free(exchange[i].slot.block);
    exchange[i].slot.block = NULL;
  }
}
