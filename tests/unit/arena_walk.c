/* A random walk through all functions of the arena, compared with a model of the ranges in use and of the memory that
 * may stay resident. */
#include "child.h"
#include "prng.h"
#include "setting.h"
#include "slices.h"
#include "system.h"

enum { RANGES = 120, STEPS = 3000 };
#define NEVER ((size_t)INT64_MAX >> HAK_SLICE_SHIFT) /* free memory is never given back */

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

/* It checks only the ends of each slice, since the arena handles whole slices. */
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
  char *base = hak_huge_chunks_take(chunks, tail, align, false, &zeroed);
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

/* Gives back some slices at the end of the range. */
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
    if (hak_huge_chunks_shrink(range->base, keep, tail)) {
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

/* Grows a range of whole chunks, as realloc does: in place, or wherever the kernel finds room. */
static void grow(Range *range) {
  if (range->chunks > 0 && range->slices == 0 && range->chunks < 12) {
    size_t chunks = range->chunks + 1 + prng_below(&prng, 3), had = slices_in(range);
    char *base = hak_move_grow(range->base, chunks, prng_below(&prng, 2));
    if (base) {
      range->base = base;
      range->chunks = chunks;
      used += slices_in(range) - had;
      for (size_t i = 0; i < RANGES; i++) {
        CHECK(&ranges[i] == range || !overlap(range, &ranges[i]));
      }
      mark(range, had);
      verify(range);
    }
  }
}

/* The few numbers that bound the behaviour of retention. */
typedef struct Law {
  uint64_t window_ms, now_ms, active_ms;
  size_t peak[2];   /* peak of use: in this window, and in the one before */
  size_t regretted; /* fetched slices that the policy had purged */
  size_t purged;    /* purged by the policy, and not fetched since */
  size_t retain, most, warm;
} Law;

static Law law = {.window_ms = 1000,
                  .now_ms = 1000000,
                  .retain = 8 << 20 >> HAK_SLICE_SHIFT,
                  .most = INT64_MAX >> HAK_SLICE_SHIFT,
                  .warm = (size_t)16 * HAK_SLAB_SLICES};
static size_t fetched_before, purged_before;

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static void follow(bool trims) {
  size_t fetched = hak_arena.retention.fetched - fetched_before, purged = hak_arena.retention.purged - purged_before;
  size_t again = fetched < law.purged ? fetched : law.purged;
  fetched_before += fetched;
  purged_before += purged;
  law.regretted += again;
  law.purged += (trims ? 0 : purged) - again;
  law.peak[0] = larger(law.peak[0], used);
}

/* Purges until the target is reached, or the system refuses. Then the retained memory is at most what demand has drawn,
 * and below the ceiling; together with the memory in use, it is at most a quarter above the recent peak. Memory that is
 * always kept is exempt. */
static void obey(void) {
  for (size_t before = SIZE_MAX; dirty_slices() < before;) {
    before = dirty_slices();
    hak_purge_after_free(0);
  }
  follow(false);
  size_t peak = larger(law.peak[0], law.peak[1]), dirty = dirty_slices();
  if (!scarce) {
    CHECK(dirty <= larger(law.warm, law.retain + law.regretted));
    CHECK(dirty <= larger(law.warm, larger(law.retain, law.most)));
    CHECK(dirty <= larger(law.warm, law.retain) || used + dirty <= peak + peak / 4);
  }
  CHECK(hak_arena.retention.fetched - hak_arena.retention.purged == used + dirty);
}

/* A pause counts as at most half a window, however long it is. */
static void pass_time(uint64_t ms) {
  law.now_ms += ms;
  law.active_ms += ms < law.window_ms / 2 ? ms : law.window_ms / 2;
  hak_purge_tick(law.now_ms);
  follow(false);
  CHECK(hak_purge_window_ended() == (law.active_ms >= law.window_ms));
  if (law.active_ms >= law.window_ms) {
    law.active_ms = 0;
    law.peak[1] = law.peak[0];
    law.peak[0] = used;
  }
}

static void change_options(void) {
  law.most = prng_below(&prng, 2) ? prng_below(&prng, 20 * CHUNK) : INT64_MAX >> HAK_SLICE_SHIFT;
  law.warm = (size_t)prng_below(&prng, 20) * HAK_SLAB_SLICES;
  set_number("RETAIN_MAX", (uint64_t)law.most << HAK_SLICE_SHIFT);
  set_number("WARM_POOL_SIZE", law.warm / HAK_SLAB_SLICES);
}

static void give_back(void) {
  uint32_t what = prng_below(&prng, 8);
  if (what == 0) {
    size_t keep = prng_below(&prng, 4 * CHUNK);
    (void)hak_purge_all(keep);
    CHECK(scarce || dirty_slices() <= keep);
    follow(true);
  } else if (what < 4) {
    pass_time(prng_below(&prng, prng_below(&prng, 4) ? 300 : 60000));
  } else if (what == 4 && law.retain < NEVER) {
    change_options();
  }
}

static void fail_now_and_then(void) {
  for (SystemCall call = SYSTEM_MMAP; call <= SYSTEM_MREMAP; call++) {
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
    (what == 0 ? grow : give)(range);
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

/* If no call fails, all slices can be given back, and all chunks become whole. */
static void give_all(void) {
  system_allow();
  scarce = false;
  for (size_t i = 0; i < RANGES; i++) {
    if (ranges[i].base) {
      give(&ranges[i]);
    }
  }
  (void)hak_purge_all(0);
  slices_add_up();
  CHECK(used == 0 && hak_retain_used_slices() == 0 && dirty_slices() == 0);
}

static void walk(void) {
  hak_purge_tick(law.now_ms); /* the first one after a long pause */
  law.active_ms = law.now_ms < law.window_ms / 2 ? law.now_ms : law.window_ms / 2;
  for (size_t i = 0; i < STEPS; i++) {
    step();
    CHECK(hak_retain_used_slices() == used);
    follow(false);
    obey();
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
  set_number("RETAIN", 1 << 20);
  law.retain = 1 << 20 >> HAK_SLICE_SHIFT;
  change_options();
  walk();
}

static void with_everything_kept(void) {
  prng = prng_seeded(3);
  retain_everything();
  law.retain = law.most = NEVER;
  law.window_ms = 3600000;
  walk();
}

static void with_refused_calls(void) {
  prng = prng_seeded(4);
  scarce = true;
  set_number("RETAIN", 1 << 20);
  law.retain = 1 << 20 >> HAK_SLICE_SHIFT;
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
