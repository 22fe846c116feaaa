/* What visits all blocks of a region, or all regions: walks, statistics, forks, checks. */
#include "region.h"

/* A walk holds no lock while it visits a block, so the visitor may free it. The walk is then moved on if its next piece
 * leaves. No span leaves meanwhile. */
struct hak_walk {
  int (*visit)(void *block, size_t bytes, void *context);
  void *context;
  hak_region_t *region;
  hak_piece_t *next;
  struct hak_walk *other; /* of the region */
  struct hak_walk *outer; /* of the thread */
};
static _Thread_local hak_walk_t *innermost __attribute__((tls_model("initial-exec")));

void hak_region_walks_pass_locked(const hak_piece_t *piece) {
  hak_region_t *region = atomic_load_explicit(&piece->region, memory_order_relaxed);
  for (hak_walk_t *walk = region->walks; walk; walk = walk->other) {
    walk->next = walk->next == piece ? piece->next : walk->next;
  }
}

static int visit_span(hak_region_t *region, hak_piece_t *span, const hak_walk_t *walk) {
  int stop = 0;
  for (uint32_t step = span->first; stop == 0 && step < span->end; step++) {
    hak_lock(&region->lock);
    step = hak_span_next_live(span, step);
    void *block = span->base + ((size_t)step << HAK_BLOCK_SHIFT);
    size_t bytes = step < span->end ? hak_span_usable(span, block, "hak_region_walk") : 0;
    hak_unlock(&region->lock);
    stop = bytes > 0 ? walk->visit(block, bytes, walk->context) : 0;
  }
  return stop;
}

static int visit_pieces(hak_walk_t *walk) {
  hak_region_t *region = walk->region;
  int stop = 0;
  for (hak_piece_t *piece = walk->next; piece && stop == 0; piece = walk->next) {
    walk->next = piece->next;
    bool span = piece->is_span;
    void *block = piece->base;
    size_t bytes = piece->charged;
    hak_unlock(&region->lock);
    stop = span ? visit_span(region, piece, walk) : walk->visit(block, bytes, walk->context);
    hak_lock(&region->lock);
  }
  return stop;
}

static void end_walk_locked(const hak_walk_t *walk) {
  hak_walk_t **link = &walk->region->walks;
  while (*link != walk) {
    link = &(*link)->other;
  }
  *link = walk->other;
  innermost = walk->outer;
}

int hak_region_visit(hak_region_t *region, int (*visit)(void *block, size_t bytes, void *context), void *context) {
  hak_lock(&region->lock);
  hak_region_expect(region, "hak_region_walk");
  hak_walk_t walk = {visit, context, region, region->pieces, region->walks, innermost};
  region->walks = innermost = &walk;
  int stop = visit_pieces(&walk);
  end_walk_locked(&walk);
  hak_piece_t *idle = NULL; /* spans that the visitor emptied */
  hak_region_take_idle_locked(region, false, &idle);
  hak_region_unlock_and_give(region, idle);
  return stop;
}

void hak_region_each(void (*visit)(hak_region_t *region, void *context), void *context) {
  if (!hak_region_newest()) {
    return; /* a fork may not hold the lock */
  }
  for (hak_region_t *region = hak_region_newest(); region;) {
    hak_lock(&hak_regions_lock);
    for (int i = 0; i < HAK_REGIONS_AT_ONCE && region; i++, region = region->made) {
      if (hak_region_is_open(region)) {
        visit(region, context);
      }
    }
    hak_unlock(&hak_regions_lock);
  }
}

void hak_region_each_lock(hak_region_t *newest, void (*visit)(hak_lock_t *lock, bool flag), bool flag) {
  if (!newest) {
    return;
  }
  visit(&hak_regions_lock, flag);
  for (hak_region_t *region = newest; region; region = region->made) {
    visit(&region->lock, flag);
  }
  visit(&hak_regions_released.lock, flag);
  visit(&hak_pieces_lock, flag);
}

static void count_mine(hak_region_t *region) {
  region->inside++;
}

void hak_region_fork_child(void) {
  for (hak_region_t *region = hak_region_newest(); region; region = region->made) {
    region->inside = 0;
    region->walks = NULL;
  }
  hak_scope_each(count_mine);
  for (hak_walk_t *walk = innermost; walk; walk = walk->outer) {
    walk->other = walk->region->walks;
    walk->region->walks = walk;
  }
}

static void check_one(hak_region_t *region, void *unused) {
  (void)unused;
  size_t charged = 0, live = 0, blocks = 0;
  hak_lock(&region->lock);
  for (const hak_piece_t *piece = region->pieces; piece; piece = piece->next) {
    HAK_VERIFY(atomic_load_explicit(&piece->region, memory_order_relaxed) == region);
    HAK_VERIFY(hak_piece_at(piece->base) == piece);
    charged += piece->charged;
    live += piece->is_span ? (size_t)piece->live_steps << HAK_BLOCK_SHIFT : piece->charged;
    blocks += piece->is_span ? piece->live : 1;
    if (piece->is_span) {
      hak_span_check_locked(piece);
    }
  }
  HAK_VERIFY(live == region->live_bytes && blocks == region->live_blocks);
  HAK_VERIFY(atomic_load_explicit(&region->used, memory_order_relaxed) >= charged);
  hak_unlock(&region->lock);
}

void hak_region_check(void) {
  if (hak_region_newest()) {
    hak_region_each(check_one, NULL);
    check_one(&hak_regions_released, NULL);
  }
}
