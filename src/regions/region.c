/* Regions: making, limits, requests and frees. */
#include "region.h"

#include <errno.h>
#include <string.h>

hak_lock_t hak_regions_lock = HAK_LOCK_INIT;
_Atomic(hak_region_t *) hak_regions_made;
hak_region_t hak_regions_released = {
    .state = HAK_REGION_LIVE, .soft = SIZE_MAX, .hard = SIZE_MAX, .name = "[released]"};
hak_region_t hak_region_root = {.state = HAK_REGION_LIVE, .name = "process"};
static _Thread_local bool in_callback __attribute__((tls_model("initial-exec")));

/* Limits. */

static void raise_peak(hak_region_t *region, size_t used) {
  size_t peak = atomic_load_explicit(&region->peak, memory_order_relaxed);
  while (used > peak && !atomic_compare_exchange_weak_explicit(&region->peak, &peak, used, memory_order_relaxed,
                                                               memory_order_relaxed)) {
  }
}

static bool passes(hak_region_t *region, size_t used, hak_region_ask_t *ask) {
  bool hard = used > atomic_load_explicit(&region->hard, memory_order_relaxed);
  bool soft = ask->soft && atomic_load_explicit(&region->on_limit, memory_order_relaxed) &&
              used > atomic_load_explicit(&region->soft, memory_order_relaxed);
  if (HAK_UNLIKELY(hard || soft)) {
    ask->met = region;
    ask->limit = hard ? HAK_REGION_HARD : HAK_REGION_SOFT;
  }
  return hard || soft;
}

void hak_region_raise_peaks(hak_region_t *region) {
  for (; region; region = region->parent) {
    raise_peak(region, atomic_load_explicit(&region->used, memory_order_relaxed));
  }
}

bool hak_region_charge(hak_region_t *region, size_t bytes, hak_region_ask_t *ask) {
  for (hak_region_t *each = region; each; each = each->parent) {
    if (HAK_UNLIKELY(passes(each, atomic_load_explicit(&each->used, memory_order_relaxed) + bytes, ask))) {
      return false;
    }
  }
  for (hak_region_t *each = region; each; each = each->parent) {
    size_t used = atomic_fetch_add_explicit(&each->used, bytes, memory_order_relaxed) + bytes;
    if (HAK_UNLIKELY(passes(each, used, ask))) {
      for (hak_region_t *undo = region;; undo = undo->parent) {
        atomic_fetch_sub_explicit(&undo->used, bytes, memory_order_relaxed);
        if (undo == each) {
          return false;
        }
      }
    }
  }
  return true;
}

void hak_region_uncharge(hak_region_t *region, size_t bytes) {
  for (; region; region = region->parent) {
    atomic_fetch_sub_explicit(&region->used, bytes, memory_order_relaxed);
  }
}

static hak_lock_t *callback_lock(hak_region_t *region) {
  return region == &hak_region_root ? &hak_options_lock : &region->lock;
}

void hak_region_set_callback(hak_region_t *region, hak_on_limit_t *on_limit, void *user) {
  hak_lock(callback_lock(region));
  atomic_store_explicit(&region->on_limit, on_limit, memory_order_relaxed);
  region->user = user;
  hak_unlock(callback_lock(region));
}

/* Ask the program whether a limit may be passed. No lock is held. Without a callback, or inside of it, only a soft
 * limit may. */
static bool ask_program(hak_region_t *region, size_t bytes, hak_region_limit_kind_t limit) {
  hak_lock(callback_lock(region));
  hak_on_limit_t *on_limit = atomic_load_explicit(&region->on_limit, memory_order_relaxed);
  void *user = region->user;
  hak_unlock(callback_lock(region));
  if (!on_limit || in_callback) {
    return limit == HAK_REGION_SOFT;
  }
  in_callback = true;
  bool again = on_limit(region, bytes, limit, user);
  in_callback = false;
  return again;
}

bool hak_region_ask_process(size_t bytes, hak_region_limit_kind_t limit) {
  return ask_program(&hak_region_root, bytes, limit);
}

/* True: try again. */
static bool may_pass(hak_region_ask_t *ask, size_t bytes, bool *asked_hard) {
  bool hard = ask->limit == HAK_REGION_HARD;
  if (hard && *asked_hard) {
    return false;
  }
  *asked_hard |= hard;
  ask->soft &= hard;
  return ask_program(ask->met, bytes, ask->limit);
}

/* True: try again. No request is refused for the sake of spans that have no block. */
static bool may_go_on(hak_region_ask_t *ask, size_t bytes, bool *asked_hard) {
  return hak_region_give_idle(ask->met, false) || may_pass(ask, bytes, asked_hard) ||
         (ask->limit == HAK_REGION_HARD && hak_region_give_idle(ask->met, true));
}

/* Requests. */

bool hak_region_is_open(hak_region_t *region) {
  return hak_region_state(region) == HAK_REGION_LIVE || hak_region_state(region) == HAK_REGION_RETIRED;
}

void hak_region_expect(hak_region_t *region, const char *function) {
  if (HAK_UNLIKELY(!hak_region_is_open(region))) {
    hak_misuse(function, HAK_MISUSE_REGION, region);
  }
}

static void *take_large(hak_region_t *region, size_t bytes, size_t align, bool *zeroed, hak_region_ask_t *ask) {
  size_t whole = bytes <= PTRDIFF_MAX - align ? hak_round_up(bytes > 0 ? bytes : 1, HAK_REGION_PAGE) : 0;
  if (whole == 0 || !hak_region_charge(region, whole, ask)) {
    return NULL;
  }
  hak_piece_t *piece = hak_piece_take(whole, align, false);
  size_t counted = whole;
  whole = piece && !piece->zeroed && piece->slices > 0 ? (size_t)piece->slices << HAK_SLICE_SHIFT : whole;
  if (!piece || (whole > counted && !hak_region_charge(region, whole - counted, ask))) {
    hak_region_uncharge(region, counted);
    if (piece) {
      hak_piece_give(piece);
    }
    return NULL;
  }
  *zeroed = piece->zeroed;
  piece->charged = whole; /* slices that were in use before are resident up to their end */
  hak_lock(&region->lock);
  bool live = hak_region_state(region) == HAK_REGION_LIVE; /* it may have ended meanwhile */
  if (HAK_LIKELY(live)) {
    hak_piece_enter_locked(region, piece);
    region->live_blocks++;
    region->live_bytes += whole;
    region->allocated += whole;
  }
  hak_unlock(&region->lock);
  if (HAK_UNLIKELY(!live)) {
    hak_region_uncharge(region, whole);
    hak_piece_give(piece);
    return NULL;
  }
  hak_region_raise_peaks(region);
  return piece->base;
}

/* Add a span. Its pages count once a block reaches them. False: no memory. */
static bool grow(hak_region_t *region) {
  hak_piece_t *span = hak_piece_take(HAK_SLAB_BYTES, HAK_BLOCK_MIN, true);
  if (!span) {
    return false;
  }
  hak_lock(&region->lock);
  bool live = hak_region_state(region) == HAK_REGION_LIVE; /* else the caller finds that it has ended */
  if (HAK_LIKELY(live)) {
    hak_piece_enter_locked(region, span);
    region->current = span;
  }
  hak_unlock(&region->lock);
  if (HAK_UNLIKELY(!live)) {
    hak_piece_give(span);
  }
  return true;
}

static void *take(hak_region_t *region, size_t bytes, size_t align, bool *zeroed, hak_region_ask_t *ask,
                  const char *function) {
  bool given = false;
  void *block = NULL;
  do {
    hak_lock(&region->lock);
    if (function) {
      hak_region_expect(region, function);
    }
    bool live = hak_region_state(region) == HAK_REGION_LIVE;
    given = region->given;
    bool small = given || (bytes <= HAK_REGION_SMALL_MAX && align <= HAK_REGION_SMALL_MAX);
    bool fits = small && (!given || bytes <= region->span_bytes);
    block = live && fits ? hak_span_take_locked(region, bytes, align, zeroed, ask) : NULL;
    hak_unlock(&region->lock);
    if (!live) {
      return NULL;
    }
    if (!small) {
      return take_large(region, bytes, align, zeroed, ask);
    }
  } while (!block && !ask->met && !given && grow(region));
  return block;
}

void *hak_region_take(hak_region_t *region, size_t bytes, size_t align, bool *zeroed, const char *function,
                      bool *starved) {
  bool asked_hard = false;
  hak_region_ask_t ask = {.soft = !in_callback};
  void *block;
  do {
    ask.met = NULL;
    block = take(region, bytes, align, zeroed, &ask, function);
  } while (!block && ask.met && may_go_on(&ask, bytes, &asked_hard));
  *starved = !block && !ask.met && !region->given && hak_region_state(region) == HAK_REGION_LIVE;
  return block;
}

/* Frees. */

static void free_large_locked(hak_region_t *region, hak_piece_t *piece, const void *block, const char *function) {
  if (HAK_UNLIKELY(piece->base != block)) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  region->live_blocks--;
  region->live_bytes -= piece->charged;
  region->freed += piece->charged;
}

void hak_region_put(hak_piece_t *piece, void *block, const char *function) {
  if (piece->is_span) {
    hak_region_prefetch(piece, block); /* the lock would wait for each miss of the cache in turn */
  }
  hak_region_t *region = hak_piece_lock(piece);
  hak_piece_t *empty = piece;
  if (piece->is_span) {
    empty = hak_span_put_locked(region, piece, block, function);
    if (HAK_UNLIKELY(piece->live == 0) && !empty) {
      hak_region_note_idle(region);
    }
  } else {
    free_large_locked(region, piece, block, function);
  }
  hak_region_unsample(piece, block);
  if (empty) {
    hak_piece_leave_locked(empty);
    hak_region_uncharge(region, empty->charged);
  }
  bool done = hak_region_is_done_locked(region);
  hak_unlock(&region->lock);
  if (empty) {
    hak_piece_give(empty);
  }
  if (HAK_UNLIKELY(done)) {
    hak_region_end_if_done(region);
  }
}

size_t hak_region_usable(const hak_piece_t *piece, const void *block, const char *function) {
  hak_region_t *region = hak_piece_lock(piece);
  bool starts = piece->is_span || piece->base == block;
  size_t bytes = !starts ? 0 : piece->is_span ? hak_span_usable(piece, block, function) : piece->charged;
  hak_unlock(&region->lock);
  if (!starts) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  return bytes;
}

/* Count `more` bytes for a request; at a limit, ask the program. False: it is refused. */
static bool charge_or_ask(hak_region_t *region, size_t more, size_t bytes) {
  bool asked_hard = false, counted;
  hak_region_ask_t ask = {.soft = !in_callback};
  do {
    counted = hak_region_charge(region, more, &ask);
  } while (!counted && may_go_on(&ask, bytes, &asked_hard));
  return counted;
}

/* Resize a large block in place, or by moving whole pages. *refused: a limit refused it. */
static void *resize_large(hak_region_t *region, hak_piece_t *piece, size_t bytes, const char *function, bool *refused) {
  void *block = piece->base;
  size_t unit = piece->slices > 0 ? (size_t)1 << HAK_SLICE_SHIFT : HAK_REGION_PAGE;
  size_t whole = hak_round_up(bytes, unit), had = piece->charged;
  *refused = bytes > HAK_REGION_SMALL_MAX && whole > had && !charge_or_ask(region, whole - had, bytes);
  if (bytes <= HAK_REGION_SMALL_MAX || *refused) {
    return NULL;
  }
  hak_lock(&region->lock);                                                          /* since a walk reads the piece */
  bool same = atomic_load_explicit(&piece->region, memory_order_relaxed) == region; /* else it was released */
  if (same && hak_piece_at(block) != piece) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block); /* by the callback */
  }
  void *fresh = same ? hak_piece_resize(piece, whole) : NULL;
  if (fresh) {
    hak_region_unsample(piece, NULL);
    piece->charged = whole;
    region->live_bytes += whole - had;
    *(whole > had ? &region->allocated : &region->freed) += whole > had ? whole - had : had - whole;
  }
  hak_unlock(&region->lock);
  if (!fresh) {
    hak_region_uncharge(region, whole > had ? whole - had : 0);
    return NULL;
  }
  hak_region_raise_peaks(region);
  hak_region_uncharge(region, whole < had ? had - whole : 0);
  return fresh;
}

void *hak_region_resize(hak_piece_t *piece, void *block, size_t bytes, const char *function, bool *starved) {
  *starved = false;
  size_t usable = hak_region_usable(piece, block, function);
  hak_region_t *region = atomic_load_explicit(&piece->region, memory_order_relaxed);
  if (bytes <= usable && bytes >= usable / 2 + usable / 4) {
    return block;
  }
  bool refused = false;
  void *fresh = !piece->is_span && bytes <= PTRDIFF_MAX ? resize_large(region, piece, bytes, function, &refused) : NULL;
  if (fresh || refused) {
    return fresh; /* a copy would pass the limit by even more */
  }
  bool zeroed;
  fresh = hak_region_take(region, bytes, HAK_BLOCK_MIN, &zeroed, NULL, starved);
  if (fresh) {
    memcpy(fresh, block, usable < bytes ? usable : bytes);
    hak_region_put(piece, block, function);
  }
  return fresh || bytes > usable ? fresh : block;
}

bool hak_region_is_released(const hak_piece_t *piece) {
  return atomic_load_explicit(&piece->region, memory_order_relaxed) == &hak_regions_released;
}

/* Making. */

static void push(hak_region_t *region) {
  region->made = atomic_load_explicit(&hak_regions_made, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&hak_regions_made, &region->made, region, memory_order_release,
                                                memory_order_relaxed)) { /* pairs with hak_region_newest */
  }
}

static void add_to_all(hak_region_t *region) {
  hak_lock_t *lock = hak_region_newest() ? &hak_regions_lock : &hak_meta_lock;
  hak_lock(lock);
  push(region);
  hak_unlock(lock);
}

hak_region_t *hak_region_make(hak_region_t *parent, const char *name) {
  hak_region_t *region = hak_region_newest() ? hak_region_unused() : NULL;
  if (!region) {
    region = hak_meta_alloc(sizeof *region);
    if (!region) {
      return NULL;
    }
    add_to_all(region);
  }
  hak_lock(&hak_regions_lock);
  if (parent) {
    hak_region_expect(parent, "hak_region_new");
  }
  memset((char *)region + offsetof(hak_region_t, parent), 0, sizeof *region - offsetof(hak_region_t, parent));
  region->inside = 0;
  region->soft = region->hard = SIZE_MAX;
  strncpy(region->name, name ? name : "", sizeof region->name - 1);
  region->parent = parent;
  if (parent) {
    HAK_LIST_PUSH(parent->child, region, next, prev);
  }
  atomic_store_explicit(&region->state, HAK_REGION_LIVE, memory_order_relaxed);
  hak_unlock(&hak_regions_lock);
  return region;
}

void hak_region_rename(hak_region_t *region, const char *name, size_t bytes) {
  hak_lock(&hak_regions_lock); /* visitors of all regions hold it */
  memset(region->name, 0, sizeof region->name);
  strncpy(region->name, name, bytes - 1);
  hak_unlock(&hak_regions_lock);
}
