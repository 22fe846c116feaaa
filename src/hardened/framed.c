/* Framed runs of the hardened profile. hardened.c stands above, run.c and gap.c below. */
#include "framed.h"

#include "blocks/blocks.h"

#include <errno.h>
#include <string.h>

typedef hak_framed_run_t run_t;

static size_t frame_bytes(void) {
  size_t page = hak_os_page_bytes();
  return page <= HAK_SLICE_BYTES ? page : (size_t)1 << HAK_PAGE_SHIFT;
}

/* Runs have 64 KiB or more, so each holds the first slice of a place for a slab, whose descriptor no slab uses. */
static hak_slab_t *descriptor_of(const char *base) {
  return hak_pagemap_slab(base + (-(uintptr_t)base & (HAK_SLAB_BYTES - 1)));
}

static run_t run_at(char *base, uint32_t cls) {
  hak_slab_t *descriptor = descriptor_of(base);
  return (run_t){base, __atomic_load_n(&descriptor->framed, __ATOMIC_RELAXED),
                 base + hak_class_sizes[cls] - frame_bytes(), cls, descriptor};
}

static void set_block(run_t *run, char *block) {
  run->block = block;
  __atomic_store_n(&run->descriptor->framed, block, __ATOMIC_RELAXED);
}

/* The run that holds an address. The page map shows its class at its first slice alone. A run without a frame holds a
 * block from before the profile, or one for which there was no other memory; its descriptor shows no block. */
bool hak_framed_find(const void *address, run_t *run) {
  uintptr_t at = (uintptr_t)address & -(uintptr_t)HAK_SLICE_BYTES;
  const hak_chunk_t *chunk = hak_hard.on ? hak_pagemap_chunk(address) : NULL;
  if (!chunk || chunk->state != HAK_CHUNK_SLICED) {
    return false;
  }
  uint32_t cls = hak_pagemap_class((void *)at);
  while (cls == HAK_CLASS_NONE && at % HAK_CHUNK_BYTES != 0) {
    at -= HAK_SLICE_BYTES;
    cls = hak_pagemap_class((void *)at);
  }
  if (cls < HAK_CLASS_64K || !hak_class_is_run(cls) || (uintptr_t)address - at >= hak_class_sizes[cls]) {
    return false;
  }
  *run = run_at((char *)at, cls);
  return run->block > run->base && run->block < run->end;
}

/* The accessible bytes behind the block that hold the fill. */
static size_t checked_behind(const run_t *run, size_t asked) {
  const char *limit = run->end + (run->descriptor->guarded ? 0 : frame_bytes());
  size_t behind = (size_t)(limit - run->block) - asked;
  return behind < HAK_MARGIN_BEHIND ? behind : HAK_MARGIN_BEHIND;
}

static unsigned char fill_of(const void *block) {
  return (unsigned char)(hak_seal_base(block) | 1);
}

static bool is_whole_before(const run_t *run) {
  const char *first = run->base + frame_bytes(), *seal = run->block - HAK_SEAL_BYTES;
  size_t before = (size_t)(seal - first);
  before = before < HAK_MARGIN_BEFORE ? before : HAK_MARGIN_BEFORE;
  return !hak_hard.zero || hak_seal_margin_is_filled(seal - before, before, 0);
}

/* The seal lies before the block: the end of a block of no bytes. */
static uint64_t seal_load(const char *block) {
  return hak_seal_load(block, 0);
}

static void seal_put(const run_t *run, size_t asked) {
  hak_seal_store(run->block, 0, hak_seal_of(hak_seal_base(run->block), (uint32_t)asked));
  memset(run->block + asked, fill_of(run->block), checked_behind(run, asked));
}

/* False: it is not the seal of a live block. */
static bool seal_read(const run_t *run, size_t *asked) {
  uint64_t base = hak_seal_base(run->block), seal = run->descriptor->closed ? 0 : seal_load(run->block);
  uint32_t code = hak_seal_code(base, seal);
  *asked = code;
  return seal == hak_seal_of(base, code) && code <= (size_t)(run->end - run->block);
}

static bool is_freed(const run_t *run) {
  return run->descriptor->closed || seal_load(run->block) == hak_seal_of(hak_seal_base(run->block), HAK_SEAL_FREED);
}

static bool is_clean(const run_t *run) {
  return run->descriptor->closed || !hak_hard.zero || hak_move_is_zero(run->block, (size_t)(run->end - run->block));
}

/* Abort if the freed run was written to. */
static void expect_freed(const run_t *run, const char *function) {
  if (HAK_UNLIKELY(!is_freed(run) || !is_clean(run))) {
    hak_misuse(function, is_freed(run) ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, run->block);
  }
}

static void zero(char *from, size_t bytes) {
  size_t first = -(uintptr_t)from & (hak_os_page_bytes() - 1);
  first = first < bytes ? first : bytes;
  memset(from, 0, first);
  hak_move_zero(from + first, bytes - first);
}

/* The pages of a freed run have no access while it waits, so that each use of the block faults. They keep their
 * contents: two system calls are much cheaper than a fault for each page. The smaller runs cannot all pay for them.
 * Those that the program replaces often keep their access, and are checked instead. */
enum {
  CLOSED_FROM = 128 << 10,
  SMALLER_EACH_US = 2000, /* on average, for one smaller run */
  SMALLER_BURST = 16,
};

static bool may_close(size_t bytes) {
  static _Atomic uint64_t used_us; /* of the clock's time, by smaller runs */
  if (bytes >= CLOSED_FROM) {
    return true;
  }
  uint64_t now = hak_os_now_ms() * 1000, used = atomic_load_explicit(&used_us, memory_order_relaxed);
  uint64_t burst = (uint64_t)SMALLER_BURST * SMALLER_EACH_US;
  used = used + burst < now ? now - burst : used;
  if (used + SMALLER_EACH_US > now) {
    return false;
  }
  atomic_store_explicit(&used_us, used + SMALLER_EACH_US, memory_order_relaxed); /* a race closes one run more */
  return true;
}

static void close_freed(const run_t *run) {
  char *first = run->base + frame_bytes();
  size_t bytes = (size_t)(run->end - first);
  run->descriptor->closed = hak_hard.delayed_regions > 0 && may_close(bytes) && hak_gap_protect(first, bytes);
}

/* False: they stay without access. */
static bool open_closed(const run_t *run) {
  char *first = run->base + frame_bytes();
  bool opened = !run->descriptor->closed || hak_gap_unprotect(first, (size_t)(run->end - first));
  run->descriptor->closed = !opened;
  return opened;
}

/* Make runs, and give them back. */

static bool wants_guards(void) {
  bool possible = hak_hard.guards > 0 && hak_os_page_bytes() == frame_bytes();
  return possible && (hak_gap_is_free() || hak_chance(hak_hard.guards) == 0);
}

static bool make(uint32_t cls, run_t *run, bool *zeroed) {
  char *base = hak_arena_take_run(cls, 1, zeroed);
  if (!base) {
    return false;
  }
  *run = run_at(base, cls);
  if (!*zeroed) { /* the frame, too: its bytes are checked where it has access */
    hak_move_zero(base, hak_class_sizes[cls]);
    *zeroed = true;
  }
  bool guarded = wants_guards() && hak_gap_close(base, frame_bytes()), opened = true;
  if (guarded && !hak_gap_close(run->end, frame_bytes())) {
    opened = hak_gap_open(base, frame_bytes());
    guarded = false;
  }
  run->descriptor->guarded = guarded;
  run->descriptor->closed = false;
  return opened; /* else the run is lost */
}

/* A run whose pages stay without access is lost. */
static void give_back(run_t run, const char *function) {
  bool guarded = run.descriptor->guarded, opened = open_closed(&run);
  set_block(&run, NULL);
  if (opened && (!guarded || (hak_gap_open(run.base, frame_bytes()) && hak_gap_open(run.end, frame_bytes())))) {
    hak_run_give(run.base, run.cls, function);
  }
}

/* Check a run that has waited, and give it back. */
static void give_up(const char *block, const char *function) {
  run_t run;
  if (hak_framed_find(block, &run)) {
    expect_freed(&run, function);
    give_back(run, function);
  }
}

bool hak_framed_give_up(bool delayed) {
  bool any = false;
  for (uint32_t place = 0; place < HAK_FRAMED_PLACES; place++) {
    char *block = hak_framed_take_place(place, delayed);
    if (block) {
      give_up(block, "malloc");
      any = true;
    }
  }
  return any;
}

/* Blocks. */

/* A run that has waited. */
static bool take_waiting(uint32_t cls, run_t *run) {
  char *block = hak_framed_take_ready(cls);
  if (!block || !hak_framed_find(block, run)) {
    return false;
  }
  expect_freed(run, "malloc");
  bool opened = open_closed(run);
  if (opened) { /* else the run is lost */
    hak_seal_store(block, 0, 0);
  }
  return opened;
}

void *hak_framed_alloc(size_t bytes, size_t align, size_t headroom, bool *zeroed) {
  size_t grain = align > HAK_BLOCK_MIN ? align : HAK_BLOCK_MIN, frame = frame_bytes();
  run_t run;
  if (bytes > HAK_CACHED_MAX || headroom > HAK_CACHED_MAX || align > frame) {
    return NULL;
  }
  size_t room = 2 * frame + HAK_BLOCK_MIN + hak_round_up(bytes + headroom, grain) + (grain > HAK_BLOCK_MIN ? grain : 0);
  if (room > HAK_CACHED_MAX) {
    return NULL;
  }
  uint32_t cls = hak_class_of(room > HAK_SLAB_BYTES ? room : (size_t)HAK_SLAB_BYTES);
  *zeroed = hak_hard.zero;
  if (!take_waiting(cls, &run) && !make(cls, &run, zeroed)) {
    return NULL;
  }
  uintptr_t last = (uintptr_t)run.end - bytes - headroom;
  set_block(&run, run.end - ((uintptr_t)run.end - (last & -grain)));
  seal_put(&run, bytes);
  return run.block;
}

/* Check a live block on all sides; aborts if anything is wrong. Returns the bytes that were asked for. */
static size_t expect(const run_t *run, const void *block, const char *function) {
  size_t asked = 0;
  if (HAK_UNLIKELY(run->block != block)) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  if (HAK_UNLIKELY(!seal_read(run, &asked))) {
    hak_misuse(function, is_freed(run) ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_FRONT_SEAL, block);
  }
  if (HAK_UNLIKELY(!hak_seal_margin_is_filled(run->block + asked, checked_behind(run, asked), fill_of(block)))) {
    hak_misuse(function, HAK_MISUSE_PAGE_END, block);
  }
  if (HAK_UNLIKELY(!is_whole_before(run))) {
    hak_misuse(function, HAK_MISUSE_PAGE_START, block);
  }
  return asked;
}

size_t hak_framed_usable(const run_t *run, const void *block, const char *function) {
  return expect(run, block, function);
}

bool hak_framed_resize(const run_t *run, void *block, size_t bytes, bool shrinks) {
  size_t asked = expect(run, block, "realloc"), room = (size_t)(run->end - run->block);
  size_t keep = asked < bytes ? asked : bytes;
  if (bytes > room || (bytes < room / 2 && !shrinks)) {
    return false;
  }
  memset(run->block + keep, 0, asked + checked_behind(run, asked) - keep);
  seal_put(run, bytes);
  return true;
}

/* If two threads free the same block, one of them finds the other's seal. */
void hak_framed_free(const run_t *run, void *block, const char *function) {
  int saved = errno;
  size_t asked = expect(run, block, function);
  uint64_t freed = hak_seal_of(hak_seal_base(block), HAK_SEAL_FREED);
  if (atomic_exchange_explicit(hak_seal_at(block, 0), freed, memory_order_acq_rel) == freed) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  if (hak_hard.zero) {
    zero(run->block, asked);
  }
  memset(run->block + asked, 0, checked_behind(run, asked));
  close_freed(run);
  char *older = hak_framed_put(run->cls, run->block);
  if (older) {
    give_up(older, function);
  }
  errno = saved;
}

/* The end of the process. */

typedef struct search {
  const void *found;
  hak_misuse_t reason;
} search_t;

static void look_at(hak_slab_t *descriptor, void *argument) {
  search_t *search = argument;
  size_t asked = 0;
  run_t run = {0};
  bool is_run = descriptor->cls == HAK_CLASS_NONE && descriptor->framed && !search->found &&
                hak_framed_find(descriptor->framed, &run);
  if (!is_run || run.descriptor != descriptor) {
    return;
  }
  if (seal_read(&run, &asked)) {
    bool whole = hak_seal_margin_is_filled(run.block + asked, checked_behind(&run, asked), fill_of(run.block));
    search->reason = whole ? HAK_MISUSE_PAGE_START : HAK_MISUSE_PAGE_END;
    search->found = whole && is_whole_before(&run) ? NULL : run.block;
  } else {
    search->reason = is_freed(&run) ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FRONT_SEAL;
    search->found = is_freed(&run) && is_clean(&run) ? NULL : run.block;
  }
}

const void *hak_framed_find_damaged(hak_misuse_t *reason) {
  search_t search = {NULL, HAK_MISUSE_PAGE_END};
  hak_arena_each_slab(look_at, &search);
  *reason = search.reason;
  return search.found;
}
