/* A random walk over all that the arena does, against a model that knows who has what. */
#include "child.h"
#include "prng.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

enum { RANGES = 120, STEPS = 6000 };

/* `chunks` whole chunks, then `slices` slices. Each slice holds its owner's tag in its first and last word. */
typedef struct Range {
  char *base;
  size_t chunks, slices;
  uint64_t tag;
} Range;

static Range ranges[RANGES];
static size_t used;
static uint64_t tags;
static Prng prng;
static bool scarce; /* system calls fail now and then */

static size_t slices_in(const Range *range) {
  return range->chunks * CHUNK + range->slices;
}

static uint64_t *words_of(const Range *range, size_t slice) {
  return (uint64_t *)(void *)slice_of(range->base, slice);
}

static void mark(const Range *range, size_t from) {
  for (size_t i = from; i < slices_in(range); i++) {
    words_of(range, i)[0] = words_of(range, i + 1)[-1] = range->tag;
  }
}

static void verify(const Range *range) {
  for (size_t i = 0; i < slices_in(range); i++) {
    CHECK(words_of(range, i)[0] == range->tag && words_of(range, i + 1)[-1] == range->tag);
  }
}

static bool overlap(const Range *one, const Range *other) {
  return other->base && one->base < slice_of(other->base, slices_in(other)) &&
         other->base < slice_of(one->base, slices_in(one));
}

/* Ends of each slice are enough: the arena deals in whole ones. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the range keeps it */
static void adopt(Range *range, char *base, size_t chunks, size_t slices, bool zeroed) {
  *range = (Range){base, chunks, slices, ++tags};
  for (size_t i = 0; i < RANGES; i++) {
    CHECK(&ranges[i] == range || !overlap(range, &ranges[i]));
  }
  for (size_t i = 0; i < slices_in(range); i++) {
    CHECK(!zeroed || (words_of(range, i)[0] == 0 && words_of(range, i + 1)[-1] == 0));
  }
  mark(range, 0);
  used += slices_in(range);
}

static void take_slices(Range *range) {
  bool zeroed;
  size_t align = (size_t)1 << prng_below(&prng, prng_below(&prng, 4) ? 3 : 8);
  size_t slices = 1 + prng_below(&prng, prng_below(&prng, 4) ? 12 : CHUNK);
  char *base = hak_arena_take(slices, align, &zeroed);
  CHECK(base || scarce);
  if (base) {
    CHECK((uintptr_t)base % (align << HAK_SLICE_SHIFT) == 0 && slice_number(base) + slices <= CHUNK);
    adopt(range, base, 0, slices, zeroed);
  }
}

static void take_chunks(Range *range) {
  bool zeroed;
  size_t align = (size_t)HAK_CHUNK_BYTES << prng_below(&prng, 3);
  size_t chunks = 1 + prng_below(&prng, 5), tail = prng_below(&prng, 2) ? prng_below(&prng, CHUNK) : 0;
  char *base = hak_arena_take_chunks(chunks, tail, align, false, &zeroed);
  CHECK(base || scarce);
  if (base) {
    CHECK((uintptr_t)base % align == 0);
    adopt(range, base, chunks, tail, zeroed);
  }
}

static void give(Range *range) {
  verify(range);
  used -= slices_in(range);
  if (range->chunks > 0) {
    chunks_give(range->base, range->slices);
  } else {
    hak_arena_give(range->base, range->slices);
  }
  CHECK(hak_arena_why(range->base) != HAK_MISUSE_NOT_START);
  range->base = NULL;
}

/* Some slices at the end. */
static void give_part(Range *range) {
  if (range->slices > 1) {
    size_t keep = 1 + prng_below(&prng, (uint32_t)range->slices - 1);
    hak_arena_give(slice_of(chunk_of(range->base, range->chunks), keep), range->slices - keep);
    used -= range->slices - keep;
    range->slices = keep;
  }
}

static void extend(Range *range) {
  size_t more = 1 + prng_below(&prng, 8), had = slices_in(range);
  if (range->slices > 0 && hak_arena_extend(chunk_of(range->base, range->chunks), range->slices, more)) {
    range->slices += more;
    used += more;
    for (size_t i = 0; i < RANGES; i++) {
      CHECK(&ranges[i] == range || !overlap(range, &ranges[i]));
    }
    mark(range, had);
  }
}

static void shrink(Range *range) {
  if (range->chunks > 1) {
    size_t keep = 1 + prng_below(&prng, (uint32_t)range->chunks - 1), tail = prng_below(&prng, CHUNK);
    size_t old_tail = range->slices;
    char *end = chunk_of(range->base, range->chunks);
    if (hak_arena_shrink_chunks(range->base, keep, tail)) {
      used -= slices_in(range);
      range->chunks = keep;
      range->slices = tail;
      used += slices_in(range);
      if (old_tail > 0) {
        hak_arena_give(end, old_tail);
      }
    } else {
      CHECK(scarce);
    }
  }
}

static void give_back(void) {
  static uint64_t now_ms = 1000000;
  uint32_t what = prng_below(&prng, 8);
  if (what == 0) {
    size_t keep = prng_below(&prng, 4 * CHUNK);
    (void)hak_arena_purge(keep);
    CHECK(scarce || dirty_slices() <= keep);
  } else if (what < 4) {
    now_ms += prng_below(&prng, 800);
    hak_arena_tick(now_ms);
  }
}

static void fail_now_and_then(void) {
  for (SystemCall call = SYSTEM_MMAP; call <= SYSTEM_MPROTECT; call++) {
    system_refuse(call, prng_below(&prng, 8), prng_below(&prng, 3));
  }
  system_refuse_mappings_from(prng_below(&prng, 4) ? 0 : HAK_CHUNK_BYTES);
}

static void step(void) {
  Range *range = &ranges[prng_below(&prng, RANGES)];
  uint32_t what = prng_below(&prng, 16);
  if (scarce && prng_below(&prng, 4) == 0) {
    fail_now_and_then();
  }
  if (!range->base) {
    (what < 12 ? take_slices : take_chunks)(range);
  } else if (what < 4) {
    give(range);
  } else if (what < 7) {
    extend(range);
  } else if (what < 10) {
    give_part(range);
  } else if (what < 13) {
    shrink(range);
  } else {
    give_back();
  }
}

/* While nothing fails all slices can be given back, and chunks are whole again. */
static void give_all(void) {
  system_allow();
  scarce = false;
  for (size_t i = 0; i < RANGES; i++) {
    if (ranges[i].base) {
      give(&ranges[i]);
    }
  }
  (void)hak_arena_purge(0);
  slices_add_up();
  CHECK(used == 0 && hak_arena_used_slices() == 0 && dirty_slices() == 0);
}

static void walk(void) {
  for (size_t i = 0; i < STEPS; i++) {
    step();
    CHECK(hak_arena_used_slices() == used);
    if (i % 16 == 0) {
      slices_add_up();
    }
  }
  give_all();
}

static void with_the_defaults(void) {
  prng = prng_seeded(1);
  walk();
  CHECK(hak_arena_totals().mapped_slices == 0);
}

static void with_little_kept(void) {
  prng = prng_seeded(2);
  set_number("WARM_POOL_SIZE", 2);
  set_number("RETAIN", 1 << 20);
  set_number("RETAIN_MAX", 0);
  walk();
}

static void with_everything_kept(void) {
  prng = prng_seeded(3);
  retain_everything();
  walk();
}

static void with_refused_calls(void) {
  prng = prng_seeded(4);
  scarce = true;
  set_number("RETAIN", 1 << 20);
  walk();
}

static void under_a_limit(void) {
  prng = prng_seeded(5);
  scarce = true;
  set_number("MEMORY_LIMIT", (uint64_t)30 * HAK_CHUNK_BYTES);
  walk();
}

int main(void) {
  child_succeeds(with_the_defaults);
  child_succeeds(with_little_kept);
  child_succeeds(with_everything_kept);
  child_succeeds(with_refused_calls);
  child_succeeds(under_a_limit);
  return 0;
}
