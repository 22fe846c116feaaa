#include "arena_internal.h"
#include "options.h"
#include "os.h"

enum {
  STEP_SLICES = 256, /* 4 MiB: what a caller gives back at most beyond a few times what it gave: none waits for long */
  STEP_RANGES = 15,  /* on the stack, of which a thread may have little */
  LEAST_RISE = 8,    /* a smaller share of what was learned, used again, does not count */
  SPLIT_CHUNKS = 4,  /* descriptors of both parts of an extent */
};

/* What is on its way to the system: slices of a SLICED chunk; or an extent, by the descriptors that it needs should it
 * come back, of which the first tells it. */
typedef struct range {
  hak_chunk_t *chunk;
  hak_mask_t mask; /* 0: an extent */
} range_t;

typedef struct step {
  range_t range[STEP_RANGES];
  size_t ranges, slices;
  uint32_t forks; /* before it */
} step_t;

static size_t lowest_floor(void) {
  size_t now = hak_arena.floor_slices[0], before = hak_arena.floor_slices[1];
  return now < before ? now : before;
}

/* What was learned is for use that rises again, from as low as it lately did. The less of it holds the lower use falls
 * below that; from half of it on, nothing. */
static size_t learned_locked(void) {
  size_t used = hak_arena.used_slices, floor = lowest_floor();
  /* Where all is resident at once, what a mapping brings beside a block was never used. */
  size_t learned = hak_arena.locked ? 0 : hak_arena.learned_slices;
  if (floor == SIZE_MAX || used >= floor) {
    return learned;
  }
  return used * 2 > floor ? learned - learned * 2 * (floor - used) / floor : 0;
}

static void note_floor_locked(size_t used) {
  size_t *floor = &hak_arena.floor_slices[0];
  *floor = hak_arena.low_slices < *floor ? hak_arena.low_slices : *floor;
  hak_arena.low_slices = used;
}

void hak_release_use_locked(size_t used) {
  if (used < hak_arena.low_slices || used > hak_arena.peak_slices) {
    hak_arena.low_slices = used;
  } else if (used - hak_arena.low_slices > hak_arena.learned_slices / LEAST_RISE) {
    note_floor_locked(used);
  }
  hak_arena.peak_slices = hak_arena.peak_slices > used ? hak_arena.peak_slices : used;
}

size_t hak_release_target_locked(void) {
  size_t target = hak_option_size(HAK_OPTION_WARM_POOL) * HAK_SLAB_SLICES;
  size_t share = hak_arena.used_slices * hak_option_size(HAK_OPTION_RETAIN_SHARE) / 100;
  size_t cached = atomic_load_explicit(&hak_arena.cached_bytes, memory_order_relaxed) >> HAK_SLICE_SHIFT;
  size_t retain = hak_option_slices(HAK_OPTION_RETAIN), least = retain > cached ? retain - cached : 0;
  target = target > least ? target : least;
  target = target > share ? target : share;
  size_t learned = learned_locked();
  return target > learned ? target : learned;
}

bool hak_release_due_locked(void) {
  return hak_arena.decaying || hak_arena.dirty_slices > hak_release_target_locked() + hak_arena.stuck_slices;
}

void hak_release_refaulted_locked(size_t slices) {
  hak_arena.refaulted_slices += slices;
  if (hak_arena.refaulted_slices * 2 < hak_arena.given_back_slices) {
    return;
  }
  size_t learned = hak_release_target_locked() * 2;
  size_t most = hak_option_slices(HAK_OPTION_RETAIN_LEARNED);
  most = most < hak_arena.peak_slices ? most : hak_arena.peak_slices;
  hak_arena.learned_slices = learned < most ? learned : most;
  note_floor_locked(hak_arena.used_slices);
  hak_arena.given_back_slices = hak_arena.refaulted_slices = 0;
}

static bool is_aged(const hak_chunk_t *chunk) {
  return hak_arena.epoch - chunk->epoch >= 2;
}

static void collect_extents(step_t *step, size_t most, bool aged_only) {
  for (uint32_t list = 0; list < HAK_EXTENT_LISTS; list++) {
    hak_chunk_t *first = hak_arena.extents[1][list], *next;
    for (; first && step->slices < most && step->ranges < STEP_RANGES; first = next) {
      next = first->next;
      if (!aged_only || is_aged(first)) {
        size_t room = (most - step->slices + HAK_CHUNK_SLICES - 1) / HAK_CHUNK_SLICES;
        hak_extent_t extent = hak_extent_cut_locked(first);
        if (extent.chunks > room && hak_arena.spare_chunks_count >= SPLIT_CHUNKS) { /* its end; the rest comes later */
          hak_extent_put_locked((hak_extent_t){extent.base, extent.chunks - room, true, extent.epoch});
          extent.base += (extent.chunks - room) << HAK_CHUNK_SHIFT;
          extent.chunks = room;
          next = NULL;
        }
        hak_chunk_t *held = hak_chunk_hold_locked(extent.chunks > 1 ? 2 : 1);
        held->base = extent.base;
        held->chunks = extent.chunks;
        held->epoch = extent.epoch;
        held->next_transit = hak_arena.leaving;
        hak_arena.leaving = held;
        step->range[step->ranges++] = (range_t){held, 0};
        step->slices += extent.chunks * HAK_CHUNK_SLICES;
      }
    }
  }
}

static void into_transit(hak_chunk_t *chunk, hak_mask_t mask) {
  if (chunk->transit == 0) {
    chunk->next_transit = hak_arena.transit;
    hak_arena.transit = chunk;
  }
  chunk->free &= ~mask;
  chunk->transit |= mask;
  hak_arena.dirty_slices -= hak_mask_count(mask);
  hak_arena_settle_locked(chunk);
}

/* Up to `count` of them: what lies low is taken again first. */
static hak_mask_t highest(hak_mask_t mask, size_t count) {
  for (size_t more = hak_mask_count(mask); more > count; more--) {
    mask &= mask - 1;
  }
  return mask;
}

/* The emptiest chunks first: they may become whole ones. */
static void collect_slices(step_t *step, size_t most, bool aged_only) {
  for (int i = 2 * HAK_DIRTY_LISTS - 1; i >= 0; i--) {
    hak_chunk_t *chunk = hak_arena.lists[i % 2].dirty[i / 2].last, *before;
    for (; chunk && step->slices < most && step->ranges < STEP_RANGES; chunk = before) {
      before = chunk->prev_dirty;
      if (aged_only && !is_aged(chunk)) {
        break;
      }
      hak_mask_t mask = highest(chunk->free & chunk->dirty, most - step->slices);
      step->range[step->ranges++] = (range_t){chunk, mask};
      step->slices += hak_mask_count(mask);
      into_transit(chunk, mask);
    }
  }
}

/* Those of the slices that make up whole pages, which may be larger: of the rest, pages hold something else. */
static hak_mask_t whole_pages(hak_mask_t mask) {
  size_t slices = hak_os_page_bytes() >> HAK_SLICE_SHIFT;
  hak_mask_t whole = slices > 1 ? 0 : mask;
  if (slices > 1) {
    for (hak_mask_t starts = hak_mask_starts(mask, slices) & hak_mask_aligned(slices); starts; starts &= starts - 1) {
      whole |= hak_mask_of(hak_mask_lowest(starts), slices);
    }
  }
  return whole;
}

/* Returns the slices that were given back. */
static hak_mask_t discard_slices(const hak_chunk_t *chunk, hak_mask_t mask) {
  hak_mask_t done = 0;
  mask = whole_pages(mask);
  while (mask) {
    uint32_t count, first = hak_mask_row(mask, &count);
    hak_mask_t row = hak_mask_of(first, count);
    if (hak_os_discard(chunk->base + ((size_t)first << HAK_SLICE_SHIFT), (size_t)count << HAK_SLICE_SHIFT)) {
      done |= row;
    }
    mask &= ~row;
  }
  return done;
}

/* Free again; of these, `done` are clean now. */
static void out_of_transit(hak_chunk_t *chunk, hak_mask_t mask, hak_mask_t done) {
  chunk->transit &= ~mask;
  if (chunk->transit == 0) {
    hak_chunk_t **link = &hak_arena.transit;
    while (*link != chunk) {
      link = &(*link)->next_transit;
    }
    *link = chunk->next_transit;
  }
  chunk->free |= mask;
  chunk->dirty &= ~done;
  chunk->purged |= done;
  hak_arena.dirty_slices += hak_mask_count(mask & ~done);
  hak_arena_settle_locked(chunk);
}

static size_t finish_slices(hak_chunk_t *chunk, hak_mask_t mask, hak_mask_t done) {
  hak_lock(&hak_arena.lock);
  mask &= chunk->transit; /* not in the child of a fork out of a signal handler: there they are free again */
  done &= mask;
  if (mask) {
    out_of_transit(chunk, mask, done);
  }
  hak_arena.given_back_slices += hak_mask_count(done);
  hak_unlock(&hak_arena.lock);
  return hak_mask_count(done);
}

static void spare_all_locked(hak_chunk_t *held) {
  for (hak_chunk_t *next; held; held = next) {
    next = held->next;
    hak_chunk_spare_locked(held);
  }
}

/* Mapped as ever, again. */
static void put_back_locked(hak_extent_t extent, hak_chunk_t *held) {
  spare_all_locked(held);
  hak_extent_put_locked(extent);
}

/* False: in the child of a fork out of a signal handler, where it is free again. */
static bool leave(const hak_chunk_t *held, size_t slices) {
  hak_lock(&hak_arena.lock);
  hak_chunk_t **link = &hak_arena.leaving;
  while (*link && *link != held) {
    link = &(*link)->next_transit;
  }
  bool found = *link != NULL;
  if (found) {
    *link = held->next_transit;
    hak_arena.mapped_slices -= slices;
    hak_arena.unmapped_ever += slices;
  }
  hak_unlock(&hak_arena.lock);
  return found;
}

/* Its pages go first, which takes long: until then it is known to be ours, also to the child of a fork. */
static size_t finish_extent(hak_chunk_t *held, uint32_t forks) {
  hak_extent_t extent = {held->base, held->chunks, true, held->epoch};
  atomic_signal_fence(memory_order_acq_rel);
  if (hak_arena.forks != forks) { /* then it is free again, and its descriptors are others' */
    return 0;
  }
  size_t bytes = extent.chunks << HAK_CHUNK_SHIFT, slices = extent.chunks * HAK_CHUNK_SLICES;
  bool cleaned = hak_os_discard(extent.base, bytes);
  if (!leave(held, slices)) {
    return 0;
  }
  bool unmapped = hak_os_unmap(extent.base, bytes);
  hak_lock(&hak_arena.lock);
  if (unmapped) { /* what lies there now may be somebody's already */
    spare_all_locked(held);
    hak_arena.unmapped_lately += slices;
    hak_place_remember_locked(extent.base, bytes);
  } else {
    hak_arena.mapped_slices += slices;
    hak_arena.unmapped_ever -= slices;
    extent.dirty = !cleaned;
    put_back_locked(extent, held);
  }
  cleaned |= unmapped;
  hak_arena.given_back_slices += cleaned ? slices : 0;
  hak_unlock(&hak_arena.lock);
  return cleaned ? slices : 0;
}

/* Give back up to `most` slices. Returns how many there were to give; *done: how many of them the system took. */
static size_t release(size_t most, bool aged_only, size_t *done) {
  step_t step;
  step.ranges = step.slices = 0;
  hak_lock(&hak_arena.lock);
  step.forks = hak_arena.forks;
  collect_extents(&step, most, aged_only);
  collect_slices(&step, most, aged_only);
  hak_unlock(&hak_arena.lock);
  for (size_t i = 0; i < step.ranges && hak_arena.forks == step.forks; i++) {
    range_t *range = &step.range[i];
    *done += range->mask ? finish_slices(range->chunk, range->mask, discard_slices(range->chunk, range->mask))
                         : finish_extent(range->chunk, step.forks);
  }
  return step.slices;
}

/* Those who give little go below the target together, in one step; who gives much is a step by himself. */
static size_t slack(size_t target, size_t given) {
  size_t most = given < STEP_SLICES ? STEP_SLICES : 0;
  return target / 2 < most ? target / 2 : most;
}

void hak_release_after_give(size_t given) {
  size_t warm = hak_option_size(HAK_OPTION_WARM_POOL) * HAK_SLAB_SLICES, found;
  for (size_t left = given * 4 + STEP_SLICES; left > 0; left -= found < left ? found : left) {
    hak_lock(&hak_arena.lock);
    size_t target = hak_release_target_locked(), dirty = hak_arena.dirty_slices;
    bool above = dirty > target + hak_arena.stuck_slices, decaying = hak_arena.decaying;
    hak_unlock(&hak_arena.lock);
    size_t keep = above ? target - slack(target, given) : 0, done = 0;
    keep = keep > warm ? keep : warm;
    if (dirty <= keep || !(above || decaying)) {
      break;
    }
    found = release(dirty - keep < left ? dirty - keep : left, !above, &done);
    hak_lock(&hak_arena.lock);
    hak_arena.decaying = decaying && (above || found > 0);
    /* locked memory, say: no other try before a step's worth came to it */
    hak_arena.stuck_slices = above && done == 0 ? hak_arena.dirty_slices + STEP_SLICES : 0;
    hak_unlock(&hak_arena.lock);
    if (found == 0) {
      break;
    }
  }
}

void hak_release_after_take(void) {
  if (HAK_UNLIKELY(atomic_load_explicit(&hak_arena.locked, memory_order_relaxed))) {
    hak_release_after_give(0);
  }
}

bool hak_arena_decay(uint64_t now_ms) {
  hak_lock(&hak_arena.lock);
  /* The caller may have read the clock before another thread began the epoch. */
  bool begins = (int64_t)(now_ms - hak_arena.epoch_ms) >= hak_option(HAK_OPTION_DECAY);
  if (begins) {
    if (hak_arena.refaulted_slices == 0) {
      hak_arena.learned_slices /= 2;
    }
    if (hak_arena.floor_slices[0] != SIZE_MAX) {
      hak_arena.floor_slices[1] = hak_arena.floor_slices[0];
      hak_arena.floor_slices[0] = SIZE_MAX;
    }
    hak_arena.epoch++;
    hak_arena.epoch_ms = now_ms;
    hak_arena.decaying = true;
    hak_arena.stuck_slices = hak_arena.unmapped_lately = 0;
    hak_arena.given_back_slices = hak_arena.refaulted_slices = 0;
  }
  bool due = hak_release_due_locked();
  hak_unlock(&hak_arena.lock);
  if (due) {
    hak_release_after_give(0);
  }
  return begins;
}

/* No more than there was at the beginning: others may free as fast. */
bool hak_arena_purge(size_t keep) {
  size_t all = 0, done = 1, dirty = hak_arena_totals().dirty_slices, wanted = dirty > keep ? dirty - keep : 0;
  while (all < wanted && done > 0) {
    done = 0;
    release(wanted - all < STEP_SLICES ? wanted - all : STEP_SLICES, false, &done);
    all += done;
  }
  return all > 0;
}

bool hak_release_promise(size_t slices) {
  size_t limit = hak_option_slices(HAK_OPTION_MEMORY_LIMIT);
  if (HAK_LIKELY(hak_option(HAK_OPTION_MEMORY_LIMIT) == 0)) {
    return true;
  }
  for (bool purged = false;; purged = true) {
    hak_lock(&hak_arena.lock);
    size_t used = hak_arena.used_slices + hak_arena.promised_slices;
    bool fits = used + hak_arena.dirty_slices + slices <= limit;
    hak_arena.promised_slices += fits ? slices : 0;
    hak_unlock(&hak_arena.lock);
    if (fits || used + slices > limit || purged) {
      return fits;
    }
    hak_arena_purge(limit - slices - used);
  }
}

/* There may be less than that: the limit was not in force, or the process has forked since. */
void hak_release_end_promise_locked(size_t slices) {
  hak_arena.promised_slices -= slices < hak_arena.promised_slices ? slices : hak_arena.promised_slices;
}

void hak_release_end_promise(size_t slices) {
  hak_lock(&hak_arena.lock);
  hak_release_end_promise_locked(slices);
  hak_unlock(&hak_arena.lock);
}

void hak_arena_fork_child(void) {
  hak_arena.forks++;
  hak_arena.promised_slices = 0; /* to threads that are not here */
  while (hak_arena.transit) {
    out_of_transit(hak_arena.transit, hak_arena.transit->transit, 0);
  }
  for (hak_chunk_t *held; (held = hak_arena.leaving);) {
    hak_arena.leaving = held->next_transit;
    put_back_locked((hak_extent_t){held->base, held->chunks, true, hak_arena.epoch}, held);
  }
}
