/* The ways in which a region ends: destroyed, released, retired and empty; and the end of its blocks alone. */
#include "region.h"

#include <string.h>

static hak_region_t *gone_first, *gone_last; /* the oldest first */
static size_t gone;

hak_region_t *hak_region_unused(void) {
  hak_region_t *region = NULL;
  hak_lock(&hak_regions_lock);
  if (gone > HAK_REGIONS_KEPT) {
    region = gone_first;
    gone_first = region->next;
    gone--;
  }
  hak_unlock(&hak_regions_lock);
  return region;
}

bool hak_region_is_done_locked(hak_region_t *region) {
  bool idle = region->live_blocks == 0 && region->inside == 0 && !region->walks;
  return idle && hak_region_state(region) == HAK_REGION_RETIRED;
}

/* It is known as gone until many others are, so that a later use is noticed. */
static void put_gone_locked(hak_region_t *region) {
  hak_region_t *parent = region->parent;
  if (parent) {
    HAK_LIST_REMOVE(parent->child, region, next, prev);
  }
  region->next = NULL;
  *(gone > 0 ? &gone_last->next : &gone_first) = region;
  gone_last = region;
  gone++;
}

/* Add the piece to those whose blocks became ordinary ones; or to a list, if it has none. */
static void release(hak_piece_t *piece, hak_piece_t **empty) {
  if (piece->is_span && piece->live == 0) {
    piece->next = *empty;
    *empty = piece;
    return;
  }
  hak_lock(&hak_regions_released.lock);
  hak_piece_enter_locked(&hak_regions_released, piece);
  hak_region_charge(&hak_regions_released, piece->charged, &(hak_region_ask_t){.soft = false});
  hak_region_raise_peaks(&hak_regions_released);
  if (piece->is_span) {
    hak_regions_released.live_blocks += piece->live;
    hak_regions_released.live_bytes += (size_t)piece->live_steps << HAK_BLOCK_SHIFT;
    hak_span_list_locked(&hak_regions_released, piece);
  } else {
    hak_regions_released.live_blocks++;
    hak_regions_released.live_bytes += piece->charged;
  }
  hak_unlock(&hak_regions_released.lock);
}

/* End one region without children, whose lock is held. Its pieces, unless their blocks are kept, join the list. */
static void end_one_locked(hak_region_t *region, bool keep, hak_piece_t **pieces) {
  atomic_store_explicit(&region->state, HAK_REGION_GONE, memory_order_relaxed);
  size_t charged = 0; /* requests that are under way take back themselves what they counted */
  for (hak_piece_t *piece = region->pieces, *next; piece; piece = next) {
    next = piece->next;
    charged += piece->charged;
    if (keep) {
      release(piece, pieces);
    } else {
      piece->next = *pieces;
      *pieces = piece;
    }
  }
  hak_region_uncharge(region, charged);
  region->pieces = region->current = region->empty = NULL;
  region->live_blocks = region->live_bytes = 0;
  put_gone_locked(region);
}

static void give_all(hak_piece_t *pieces) {
  for (hak_piece_t *next; pieces; pieces = next) {
    next = pieces->next;
    hak_piece_give(pieces);
  }
}

static hak_region_t *leaf_of(hak_region_t *region) {
  while (region->child) {
    region = region->child;
  }
  return region;
}

static hak_piece_t *end_tree_locked(hak_region_t *region, bool keep, const char *function) {
  hak_piece_t *pieces = NULL;
  for (hak_region_t *each = leaf_of(region), *parent;; each = leaf_of(parent)) {
    parent = each->parent;
    hak_lock(&each->lock);
    if (each->inside > 0 || each->walks) {
      hak_misuse(function, HAK_MISUSE_REGION_INSIDE, each);
    }
    end_one_locked(each, keep, &pieces);
    hak_unlock(&each->lock);
    if (each == region) {
      return pieces;
    }
  }
}

void hak_region_end(hak_region_t *region, bool keep, const char *function) {
  hak_lock(&hak_regions_lock);
  hak_region_expect(region, function);
  hak_region_t *parent = region->parent;
  hak_piece_t *pieces = end_tree_locked(region, keep, function);
  hak_unlock(&hak_regions_lock);
  give_all(pieces);
  if (parent) {
    hak_region_end_if_done(parent);
  }
}

void hak_region_end_if_done(hak_region_t *region) {
  hak_region_t *parent = NULL;
  hak_piece_t *pieces = NULL;
  hak_lock(&hak_regions_lock);
  hak_lock(&region->lock);
  if (hak_region_is_done_locked(region) && !region->child) {
    parent = region->parent;
    end_one_locked(region, false, &pieces);
  }
  hak_unlock(&region->lock);
  hak_unlock(&hak_regions_lock);
  give_all(pieces);
  if (parent) {
    hak_region_end_if_done(parent);
  }
}

void hak_region_unlock_and_give(hak_region_t *region, hak_piece_t *pieces) {
  bool done = hak_region_is_done_locked(region);
  hak_unlock(&region->lock);
  give_all(pieces);
  if (done) {
    hak_region_end_if_done(region);
  }
}

void hak_region_close(hak_region_t *region) {
  hak_lock(&region->lock);
  hak_region_expect(region, "hak_region_retire");
  atomic_store_explicit(&region->state, HAK_REGION_RETIRED, memory_order_relaxed);
  hak_unlock(&region->lock);
  hak_region_end_if_done(region);
}

/* Spans keep their pages for the next use. */
void hak_region_end_blocks(hak_region_t *region) {
  hak_piece_t *large = NULL;
  hak_lock(&region->lock);
  hak_region_expect(region, "hak_region_reset");
  hak_span_forget_lists(region);
  region->current = NULL;
  for (hak_piece_t *piece = region->pieces, *next; piece; piece = next) {
    next = piece->next;
    if (piece->is_span) {
      hak_region_unsample(piece, NULL);
      hak_span_reset_locked(piece);
      piece->link = region->current; /* each follows the one that was reset before it */
      region->current = piece;
    } else {
      hak_piece_leave_locked(piece);
      hak_region_uncharge(region, piece->charged);
      piece->next = large;
      large = piece;
    }
  }
  region->empty = region->current ? region->current->link : NULL;
  hak_region_note_idle(region);
  region->freed += region->live_bytes;
  region->live_blocks = region->live_bytes = 0;
  hak_region_unlock_and_give(region, large);
}

void hak_region_count_scope(hak_region_t *region, bool begins, const char *function) {
  hak_lock(&region->lock);
  hak_region_expect(region, function);
  region->inside += begins ? 1 : -1U;
  hak_region_unlock_and_give(region, NULL);
}

/* Spans without a block stay with their region for its next ones, but count in its limits and its ancestors'. So they
 * go before a request is refused, or the program is asked. */

enum { LOOKED_PART = 4 }; /* of the regions must have become idle, unless the request would be refused */
static _Atomic uint64_t became_idle;

void hak_region_note_idle(hak_region_t *region) {
  if (!atomic_load_explicit(&region->idle, memory_order_relaxed)) {
    atomic_store_explicit(&region->idle, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&became_idle, 1, memory_order_relaxed);
  }
}

void hak_region_take_idle_locked(hak_region_t *region, bool all, hak_piece_t **list) {
  if (region->walks || region->given) {
    return;
  }
  region->empty = all ? NULL : region->empty; /* which has no span with a free block */
  for (hak_piece_t *piece = region->pieces, *next; piece; piece = next) {
    next = piece->next;
    bool is_idle = piece->is_span && piece->live == 0;
    if (is_idle && (all || (piece->at > piece->first && piece != region->current))) {
      hak_span_unlist_all(region, piece);
      hak_piece_leave_locked(piece);
      hak_region_uncharge(region, piece->charged);
      piece->next = *list;
      *list = piece;
    }
  }
}

/* `list`: as for hak_region_take_idle_locked. */
static void take_idle(hak_region_t *region, void *list) {
  if (atomic_load_explicit(&region->idle, memory_order_relaxed)) {
    hak_lock(&region->lock);
    atomic_store_explicit(&region->idle, false, memory_order_relaxed);
    hak_region_take_idle_locked(region, true, list);
    hak_unlock(&region->lock);
  }
}

void hak_region_trim(void) {
  hak_piece_t *idle = NULL;
  hak_region_each(take_idle, &idle);
  give_all(idle);
}

bool hak_region_give_idle(hak_region_t *region, bool few) {
  uint64_t now = atomic_load_explicit(&became_idle, memory_order_relaxed), below = 0;
  uint64_t since = now - atomic_load_explicit(&region->looked, memory_order_relaxed);
  if (since == 0 || (!few && since <= atomic_load_explicit(&region->below, memory_order_relaxed) / LOOKED_PART)) {
    return false;
  }
  atomic_store_explicit(&region->looked, now, memory_order_relaxed);
  hak_piece_t *idle = NULL;
  hak_lock(&hak_regions_lock);
  for (hak_region_t *each = leaf_of(region); hak_region_is_open(region);
       each = each->next ? leaf_of(each->next) : each->parent) {
    take_idle(each, &idle);
    below++;
    if (each == region) {
      break;
    }
  }
  atomic_store_explicit(&region->below, below, memory_order_relaxed);
  hak_unlock(&hak_regions_lock);
  give_all(idle);
  return idle != NULL;
}
