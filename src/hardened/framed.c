/* Framed runs of the hardened profile. hardened.c stands above, run.c and gap.c below. */
#include "framed.h"

#include "blocks/gap.h"
#include "blocks/large.h"
#include "blocks/seal.h"
#include "blocks/slab.h"
#include "pages/arena.h"
#include "pages/pagemap.h"
#include "system/chance.h"
#include "system/sparse.h"

#include <errno.h>
#include <string.h>

enum {
  WAITING_BYTES = 512 << 10, /* of each class, in order; as many more are ready */
  WAITING_MIN = 2,
  WAITING_MAX = 8,
  RUN_CLASSES = HAK_CLASS_COUNT - HAK_RUN_FIRST,
};

/* The block itself tells its run and its class. */
typedef struct waiting {
  uint32_t next, ready_count;
  char *queue[WAITING_MAX], *ready[WAITING_MAX];
} waiting_t;

hak_lock_t hak_framed_lock = HAK_LOCK_INIT;
static waiting_t waiting[RUN_CLASSES];

typedef struct run {
  char *base, *block;
  char *end; /* of the pages for blocks */
  uint32_t cls;
  hak_slab_t *descriptor;
} run_t;

static size_t frame_bytes(void) {
  size_t page = hak_os_page_bytes();
  return page <= HAK_SLICE_BYTES ? page : (size_t)1 << HAK_PAGE_SHIFT;
}

/* Runs have 64 KiB or more, so each holds the first slice of a place for a slab, whose descriptor no slab uses. */
static hak_slab_t *descriptor_of(const char *base) {
  return hak_slab_at(base + (-(uintptr_t)base & (HAK_SLAB_BYTES - 1)));
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
static bool find(const void *address, run_t *run) {
  uintptr_t at = (uintptr_t)address & -(uintptr_t)HAK_SLICE_BYTES;
  const hak_chunk_t *chunk = hak_chunk_at(address);
  if (!chunk || chunk->state != HAK_CHUNK_SLICED) {
    return false;
  }
  uint32_t cls = hak_class_at((void *)at);
  while (cls == HAK_CLASS_NONE && at % HAK_CHUNK_BYTES != 0) {
    at -= HAK_SLICE_BYTES;
    cls = hak_class_at((void *)at);
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
  return !hak_hard.zero || hak_margin_is_filled(seal - before, before, 0);
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
  uint64_t seal = seal_load(run->block), base = hak_seal_base(run->block);
  uint32_t code = hak_seal_code(base, seal);
  *asked = code;
  return seal == hak_seal_of(base, code) && code <= (size_t)(run->end - run->block);
}

static bool is_freed(const run_t *run) {
  return seal_load(run->block) == hak_seal_of(hak_seal_base(run->block), HAK_SEAL_FREED);
}

static bool is_clean(const run_t *run) {
  return !hak_hard.zero || hak_sparse_is_zero(run->block, (size_t)(run->end - run->block));
}

static void zero(char *from, size_t bytes) {
  size_t first = -(uintptr_t)from & (hak_os_page_bytes() - 1);
  first = first < bytes ? first : bytes;
  memset(from, 0, first);
  hak_sparse_zero(from + first, bytes - first);
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
    hak_sparse_zero(base, hak_class_sizes[cls]);
    *zeroed = true;
  }
  bool guarded = wants_guards() && hak_gap_close(base, frame_bytes()), opened = true;
  if (guarded && !hak_gap_close(run->end, frame_bytes())) {
    opened = hak_gap_open(base, frame_bytes());
    guarded = false;
  }
  run->descriptor->guarded = guarded;
  return opened; /* else the run is lost */
}

/* A run whose frame stays without access is lost. */
static void give_back(run_t run, const char *function) {
  bool guarded = run.descriptor->guarded;
  set_block(&run, NULL);
  if (!guarded || (hak_gap_open(run.base, frame_bytes()) && hak_gap_open(run.end, frame_bytes()))) {
    hak_run_give(run.base, run.cls, function);
  }
}

/* Freed runs wait in order, and then until they are drawn. */

static uint32_t places_of(uint32_t cls) {
  uint32_t places = WAITING_BYTES / hak_class_sizes[cls];
  return places < WAITING_MIN ? WAITING_MIN : places > WAITING_MAX ? WAITING_MAX : places;
}

/* Returns the block that has no place any more, or NULL. */
static char *put_locked(waiting_t *in, char *block, uint32_t places) {
  char *older = block;
  if (hak_hard.delay_bytes > 0) {
    older = in->queue[in->next];
    in->queue[in->next] = block;
    in->next = (in->next + 1) % places;
  }
  if (older && in->ready_count < places) {
    in->ready[in->ready_count++] = older;
    return NULL;
  }
  return older;
}

/* Check a run that has waited, and give it back. */
static void give_up(const char *block, const char *function) {
  run_t run;
  if (find(block, &run)) {
    if (HAK_UNLIKELY(!is_freed(&run) || !is_clean(&run))) {
      hak_misuse(function, is_freed(&run) ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, block);
    }
    give_back(run, function);
  }
}

static void let_wait(const run_t *run, const char *function) {
  hak_lock(&hak_framed_lock);
  char *block = put_locked(&waiting[run->cls - HAK_RUN_FIRST], run->block, places_of(run->cls));
  hak_unlock(&hak_framed_lock);
  if (block) {
    give_up(block, function);
  }
}

static bool take_waiting(uint32_t cls, run_t *run) {
  waiting_t *in = &waiting[cls - HAK_RUN_FIRST];
  char *block = NULL;
  if (__atomic_load_n(&in->ready_count, __ATOMIC_RELAXED) == 0) {
    return false;
  }
  hak_lock(&hak_framed_lock);
  if (in->ready_count > 0) {
    uint32_t last = in->ready_count - 1, at = hak_hard.random ? hak_chance(last + 1) : last;
    block = in->ready[at];
    in->ready[at] = in->ready[last];
    in->ready_count = last;
  }
  hak_unlock(&hak_framed_lock);
  if (!block || !find(block, run)) {
    return false;
  }
  if (HAK_UNLIKELY(!is_freed(run) || !is_clean(run))) {
    hak_misuse("malloc", is_freed(run) ? HAK_MISUSE_NOT_ZERO : HAK_MISUSE_FREED_SEAL, block);
  }
  hak_seal_store(block, 0, 0);
  return true;
}

/* The next block to give up, or NULL for an empty place. */
static char *take_place(uint32_t place, bool delayed) {
  waiting_t *in = &waiting[place / (2 * WAITING_MAX)];
  char *block = NULL;
  hak_lock(&hak_framed_lock);
  if (place / WAITING_MAX % 2 == 0 && delayed) {
    block = in->queue[place % WAITING_MAX];
    in->queue[place % WAITING_MAX] = NULL;
  } else if (place / WAITING_MAX % 2 == 1 && in->ready_count > 0) {
    block = in->ready[--in->ready_count];
  }
  hak_unlock(&hak_framed_lock);
  return block;
}

bool hak_framed_give_up(bool delayed) {
  bool any = false;
  for (uint32_t place = 0; place < 2 * RUN_CLASSES * WAITING_MAX; place++) {
    char *block = take_place(place, delayed);
    if (block) {
      give_up(block, "malloc");
      any = true;
    }
  }
  return any;
}

size_t hak_framed_waiting(uint32_t cls) {
  size_t count = 0;
  if (hak_class_is_run(cls)) {
    const waiting_t *in = &waiting[cls - HAK_RUN_FIRST];
    count = __atomic_load_n(&in->ready_count, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < WAITING_MAX; i++) {
      count += __atomic_load_n(&in->queue[i], __ATOMIC_RELAXED) != NULL;
    }
  }
  return count;
}

/* Blocks. */

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

bool hak_framed_owns(const void *address) {
  run_t run;
  return hak_hard.on && find(address, &run);
}

/* Check a live block on all sides; aborts if anything is wrong. */
static run_t expect(const void *block, const char *function, size_t *asked) {
  run_t run = {0};
  if (HAK_UNLIKELY(!find(block, &run) || run.block != block)) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  if (HAK_UNLIKELY(!seal_read(&run, asked))) {
    hak_misuse(function, is_freed(&run) ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_FRONT_SEAL, block);
  }
  if (HAK_UNLIKELY(!hak_margin_is_filled(run.block + *asked, checked_behind(&run, *asked), fill_of(block)))) {
    hak_misuse(function, HAK_MISUSE_PAGE_END, block);
  }
  if (HAK_UNLIKELY(!is_whole_before(&run))) {
    hak_misuse(function, HAK_MISUSE_PAGE_START, block);
  }
  return run;
}

char *hak_framed_block(const void *address, const char **end) {
  run_t run;
  bool is = find(address, &run);
  *end = is ? run.end : NULL;
  return is ? run.block : NULL;
}

size_t hak_framed_usable(const void *block, const char *function) {
  size_t asked = 0;
  expect(block, function, &asked);
  return asked;
}

bool hak_framed_resize(void *block, size_t bytes, bool shrinks) {
  size_t asked = 0;
  run_t run = expect(block, "realloc", &asked);
  size_t room = (size_t)(run.end - run.block), keep = asked < bytes ? asked : bytes;
  if (bytes > room || (bytes < room / 2 && !shrinks)) {
    return false;
  }
  memset(run.block + keep, 0, asked + checked_behind(&run, asked) - keep);
  seal_put(&run, bytes);
  return true;
}

/* If two threads free the same block, one of them finds the other's seal. */
void hak_framed_free(void *block, const char *function) {
  size_t asked = 0;
  int saved = errno;
  run_t run = expect(block, function, &asked);
  uint64_t freed = hak_seal_of(hak_seal_base(block), HAK_SEAL_FREED);
  if (atomic_exchange_explicit(hak_seal_at(block, 0), freed, memory_order_acq_rel) == freed) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  if (hak_hard.zero) {
    zero(run.block, asked);
  }
  memset(run.block + asked, 0, checked_behind(&run, asked));
  let_wait(&run, function);
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
  bool is_run =
      descriptor->cls == HAK_CLASS_NONE && descriptor->framed && !search->found && find(descriptor->framed, &run);
  if (!is_run || run.descriptor != descriptor) {
    return;
  }
  if (seal_read(&run, &asked)) {
    bool whole = hak_margin_is_filled(run.block + asked, checked_behind(&run, asked), fill_of(run.block));
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
