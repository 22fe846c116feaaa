/* Purging: give free memory back to the system, in steps that hold no lock over system calls. retain.c decides the
 * amount. */
#include "purge.h"

enum {
  STEP_RANGES = 8,  /* ranges of a step, which lie on the stack */
  SPLIT_CHUNKS = 4, /* spare descriptors that splitting an extent may need */
};

/* One step of purging. A range is a SLICED chunk, whose `purging` slices all belong to this step, or an extent. An
 * extent is represented by the first of the spare descriptors that it needs if it comes back; their `purging` is 0. */
typedef struct step {
  hak_chunk_t *range[STEP_RANGES];
  size_t ranges, slices;
  uint32_t forks; /* count of forks when the step began */
  bool lost;      /* the content of the range at `into` is unknown */
  bool by_policy; /* purged because the target is exceeded */
  char *into;     /* where extents move to, with `room` chunks left; NULL: they go back to the system */
  size_t room;
} step_t;

hak_purging_t hak_purging;
static _Atomic bool surplus;      /* the free resident memory exceeds the target */
static _Atomic bool window_ended; /* a window ended, and no caller noticed yet */

hak_chunk_t *hak_purge_begin_locked(hak_extent_t extent, size_t row) {
  hak_chunk_t *held = hak_chunk_hold_locked(extent.chunks > 1 ? 2 : 1);
  held->base = extent.base;
  held->chunks = extent.chunks;
  held->next_purging = hak_purging.extents;
  hak_purging.extents = held;
  hak_retain_purge_locked(extent.chunks * HAK_CHUNK_SLICES, row);
  return held;
}

static void collect_extents(step_t *step, size_t most) {
  for (uint32_t list = 0; list < HAK_EXTENT_LISTS; list++) {
    hak_chunk_t *first = hak_placement.extents[1][list], *next;
    for (; first && step->slices < most && step->ranges < STEP_RANGES; first = next) {
      next = first->next;
      size_t room = (most - step->slices + HAK_CHUNK_SLICES - 1) / HAK_CHUNK_SLICES;
      hak_extent_t extent = hak_extent_cut_locked(first);
      size_t row = step->by_policy ? extent.chunks * HAK_CHUNK_SLICES : 0;
      if (extent.chunks > room &&
          hak_placement.spare_chunks_count >= SPLIT_CHUNKS) { /* purge its end now, the rest later */
        hak_extent_put_locked((hak_extent_t){extent.base, extent.chunks - room, true, 0});
        extent.base += (extent.chunks - room) << HAK_CHUNK_SHIFT;
        extent.chunks = room;
        next = NULL;
      }
      step->range[step->ranges++] = hak_purge_begin_locked(extent, row);
      step->slices += extent.chunks * HAK_CHUNK_SLICES;
    }
  }
}

static void begin_slices_locked(hak_chunk_t *chunk, hak_mask_t mask, size_t row) {
  chunk->next_purging = hak_purging.chunks;
  hak_purging.chunks = chunk;
  chunk->free &= ~mask;
  chunk->purging = mask;
  hak_arena.dirty_slices -= hak_mask_count(mask);
  hak_retain_purge_locked(hak_mask_count(mask), row);
  hak_chunk_list_locked(chunk);
}

/* Start with the emptiest chunks, which may become whole. Skip a chunk that another thread is purging. */
static void collect_slices(step_t *step, size_t most) {
  for (int i = 2 * HAK_DIRTY_LISTS - 1; i >= 0; i--) {
    hak_chunk_t *chunk = hak_placement.lists[i % 2].dirty[i / 2].last, *before;
    for (; chunk && step->slices < most && step->ranges < STEP_RANGES; chunk = before) {
      before = chunk->prev_dirty;
      if (chunk->purging == 0) {
        /* purge high slices: threads take low ones first */
        hak_mask_t mask = hak_mask_highest(chunk->free & chunk->dirty, most - step->slices);
        step->range[step->ranges++] = chunk;
        step->slices += hak_mask_count(mask);
        begin_slices_locked(chunk, mask, step->by_policy ? chunk->dirty_run : 0);
      }
    }
  }
}

/* Returns the slices that were discarded. */
static hak_mask_t discard_slices(const hak_chunk_t *chunk, hak_mask_t mask) {
  hak_mask_t done = 0;
  mask = hak_unmap_whole_pages(mask);
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

static void end_slices_locked(hak_chunk_t *chunk, hak_mask_t done) {
  hak_chunk_t **link = &hak_purging.chunks;
  while (*link != chunk) {
    link = &(*link)->next_purging;
  }
  *link = chunk->next_purging;
  hak_arena.dirty_slices += hak_mask_count(chunk->purging & ~done);
  hak_retain_unpurge_locked(hak_mask_count(chunk->purging & ~done));
  chunk->free |= chunk->purging;
  chunk->purging = 0;
  chunk->dirty &= ~done;
  chunk->purged |= done;
  hak_chunk_list_locked(chunk);
}

static size_t finish_slices(hak_chunk_t *chunk) {
  hak_lock(&hak_arena.lock);
  if (chunk->purging && chunk->present != HAK_MASK_ALL) { /* a partly mapped chunk means low memory: unmap the slices */
    hak_mask_t mask = hak_unmap_whole_pages(chunk->purging);
    hak_unmap_forget_locked(chunk, mask);
    end_slices_locked(chunk, 0);
    hak_unmap_and_unlock(chunk, mask);
    return hak_mask_count(mask);
  }
  hak_unlock(&hak_arena.lock);
  hak_mask_t done = discard_slices(chunk, chunk->purging);
  hak_lock(&hak_arena.lock);
  done &= chunk->purging; /* `purging` is 0 in the child of a fork from a signal handler: the slices are free there */
  if (chunk->purging) {
    end_slices_locked(chunk, done);
  }
  hak_unlock(&hak_arena.lock);
  return hak_mask_count(done);
}

static void spare_all_locked(hak_chunk_t *held) {
  for (hak_chunk_t *next; held; held = next) {
    next = held->next;
    hak_chunk_spare_locked(held);
  }
}

/* False: this is the child of a fork from a signal handler, where the extent is free again. */
static bool leave(const hak_chunk_t *held, size_t slices) {
  hak_lock(&hak_arena.lock);
  hak_chunk_t **link = &hak_purging.extents;
  while (*link && *link != held) {
    link = &(*link)->next_purging;
  }
  bool found = *link != NULL;
  if (found) {
    *link = held->next_purging;
    hak_arena.mapped_slices -= slices;
    hak_arena.unmapped_ever += slices;
  }
  hak_unlock(&hak_arena.lock);
  return found;
}

/* Move the first chunks of an extent into the room that is left. Returns how many moved. */
static size_t move(char *base, size_t chunks, step_t *step) {
  size_t moved = 0;
  while (moved < chunks && step->room > 0 && hak_os_move(base, step->into, HAK_CHUNK_BYTES, &step->lost)) {
    base += HAK_CHUNK_BYTES;
    step->into += HAK_CHUNK_BYTES;
    step->room--;
    moved++;
  }
  step->room = step->lost ? 0 : step->room;
  return moved;
}

/* Discard the pages first, which takes long. Until then the heap still knows the extent, and so does the child of a
 * fork. */
static size_t finish_extent(hak_chunk_t *held, step_t *step) {
  hak_extent_t extent = {held->base, held->chunks, true, 0};
  atomic_signal_fence(memory_order_acq_rel);
  if (hak_purging.forks != step->forks) { /* the extent is free again, and its descriptors are in other use */
    return 0;
  }
  size_t bytes = extent.chunks << HAK_CHUNK_SHIFT, slices = extent.chunks * HAK_CHUNK_SLICES, gone = 0;
  bool moves = step->into != NULL, cleaned = !moves && hak_os_discard(extent.base, bytes);
  if (!leave(held, slices)) {
    return 0;
  }
  if (moves) {
    gone = move(extent.base, extent.chunks, step);
  } else if (hak_os_unmap(extent.base, bytes)) {
    gone = extent.chunks;
  }
  hak_lock(&hak_arena.lock);
  if (gone > 0) { /* another thread may use this range already */
    hak_mapping_remember_locked(extent.base, gone << HAK_CHUNK_SHIFT);
  }
  spare_all_locked(held);
  if (gone < extent.chunks) { /* still mapped: free again */
    extent = (hak_extent_t){extent.base + (gone << HAK_CHUNK_SHIFT), extent.chunks - gone, !cleaned, 0};
    hak_arena.mapped_slices += extent.chunks * HAK_CHUNK_SLICES;
    hak_arena.unmapped_ever -= extent.chunks * HAK_CHUNK_SLICES;
    hak_retain_unpurge_locked(cleaned ? 0 : extent.chunks * HAK_CHUNK_SLICES);
    hak_extent_put_locked(extent);
  }
  hak_unlock(&hak_arena.lock);
  return cleaned ? slices : gone * HAK_CHUNK_SLICES;
}

void hak_purge_finish(hak_chunk_t *held, uint32_t forks) {
  step_t step = {.forks = forks};
  finish_extent(held, &step);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the system writes there */
bool hak_purge_into(char *base, size_t chunks, size_t *filled) {
  step_t step = {.into = base, .room = chunks};
  for (bool more = true; more;) {
    hak_lock(&hak_arena.lock);
    step.forks = hak_purging.forks;
    step.ranges = step.slices = 0;
    collect_extents(&step, step.room * HAK_CHUNK_SLICES);
    hak_unlock(&hak_arena.lock);
    more = step.ranges == STEP_RANGES;
    for (size_t i = 0; i < step.ranges && hak_purging.forks == step.forks; i++) {
      more &= finish_extent(step.range[i], &step) > 0;
    }
  }
  *filled = (size_t)(step.into - base) >> HAK_CHUNK_SHIFT;
  return !step.lost;
}

/* Purge up to `most` slices. Returns how many slices the step found; *done: how many the system took. */
static size_t purge(size_t most, bool by_policy, size_t *done) {
  step_t step = {.into = NULL, .by_policy = by_policy};
  hak_lock(&hak_arena.lock);
  step.forks = hak_purging.forks;
  collect_extents(&step, most);
  collect_slices(&step, most);
  hak_unlock(&hak_arena.lock);
  for (size_t i = 0; i < step.ranges && hak_purging.forks == step.forks; i++) {
    hak_chunk_t *chunk = step.range[i];
    *done += chunk->purging ? finish_slices(chunk) : finish_extent(chunk, &step);
  }
  return step.slices;
}

bool hak_purge_after_free(size_t given) {
  size_t found = 0;
  for (size_t left = given * HAK_PURGE_TIMES + HAK_PURGE_STEP; left > 0; left -= found < left ? found : left) {
    hak_lock(&hak_arena.lock);
    size_t excess = hak_retain_surplus_locked(), most = excess > 0 ? hak_retain_batch_locked(excess, given) : 0;
    size_t done = 0;
    atomic_store_explicit(&surplus, excess > 0, memory_order_relaxed);
    hak_unlock(&hak_arena.lock);
    if (most == 0) {
      return false;
    }
    found = purge(most < left ? most : left, true, &done);
    hak_lock(&hak_arena.lock);
    /* for locked memory: do not try again before as much as another step has become free */
    hak_arena.stuck_slices = found > 0 && done == 0 ? hak_arena.dirty_slices + HAK_PURGE_STEP : 0;
    hak_unlock(&hak_arena.lock);
    if (found == 0) {
      return false;
    }
  }
  return true;
}

void hak_purge_tick(uint64_t now_ms) {
  hak_lock(&hak_arena.lock);
  if (hak_retain_tick_locked(now_ms)) {
    atomic_store_explicit(&window_ended, true, memory_order_relaxed);
    hak_arena.stuck_slices = 0;
  }
  bool due = hak_retain_surplus_locked() > 0;
  hak_unlock(&hak_arena.lock);
  if (due) {
    hak_purge_after_free(0);
  }
}

bool hak_purge_window_ended(void) {
  return atomic_load_explicit(&window_ended, memory_order_relaxed) &&
         atomic_exchange_explicit(&window_ended, false, memory_order_relaxed);
}

bool hak_purge_step(void) {
  return HAK_UNLIKELY(atomic_load_explicit(&surplus, memory_order_relaxed)) && hak_purge_after_free(0);
}

/* Purge at most what was free at the start, since other threads may free as fast. */
bool hak_purge_all(size_t keep) {
  size_t all = 0, done = 1, dirty = hak_lock_read(&hak_arena.lock, &hak_arena.dirty_slices),
         wanted = dirty > keep ? dirty - keep : 0;
  while (all < wanted && done > 0) {
    done = 0;
    purge(wanted - all < HAK_PURGE_STEP ? wanted - all : HAK_PURGE_STEP, false, &done);
    all += done;
  }
  return all > 0;
}

void hak_purge_spare(size_t chunks) {
  hak_lock(&hak_arena.lock);
  size_t spare = hak_retain_spare_locked(), most = chunks * HAK_CHUNK_SLICES;
  size_t keep = hak_arena.dirty_slices - (spare < most ? spare : most);
  hak_unlock(&hak_arena.lock);
  hak_purge_all(keep);
}

void hak_purge_fork_child(void) {
  hak_purging.forks++;
  hak_arena.reserved_slices = 0; /* the reservations belong to threads that do not exist here */
  while (hak_purging.chunks) {
    end_slices_locked(hak_purging.chunks, 0);
  }
  for (hak_chunk_t *held; (held = hak_purging.extents);) {
    hak_purging.extents = held->next_purging;
    hak_extent_t extent = {held->base, held->chunks, true, 0};
    spare_all_locked(held);
    hak_retain_unpurge_locked(extent.chunks * HAK_CHUNK_SLICES);
    hak_extent_put_locked(extent);
  }
}
