/* Spans: the blocks of up to 16 KiB of a region, and all blocks in memory that the program gave. region.c stands above.
 */
#include "region.h"

#include <string.h>

enum { JOINED_PART = 4, JOINED_PART_AT_LIMIT = 16 }; /* of the spans must be free before neighbours are joined */

static bool starts(const hak_piece_t *span, uint32_t step) {
  return span->bits[step / 64].start >> step % 64 & 1;
}
static bool is_live(const hak_piece_t *span, uint32_t step) {
  return span->bits[step / 64].used >> step % 64 & 1;
}
static void set(uint64_t *word, uint32_t step, bool is) {
  uint64_t bit = (uint64_t)1 << step % 64;
  *word = is ? *word | bit : *word & ~bit;
}

static uint32_t step_of(const hak_piece_t *span, const void *block) {
  return (uint32_t)((size_t)((const char *)block - span->base) >> HAK_BLOCK_SHIFT);
}
static void *block_at(const hak_piece_t *span, uint32_t step) {
  return span->base + ((size_t)step << HAK_BLOCK_SHIFT);
}

/* The first block that starts at `from` or behind; `at` if there is none. */
static uint32_t next_start(const hak_piece_t *span, uint32_t from) {
  uint32_t word = from / 64;
  uint64_t left = from < span->at ? span->bits[word].start >> from % 64 << from % 64 : 0;
  while (left == 0 && (word + 1) * (uint64_t)64 < span->at) {
    left = span->bits[++word].start;
  }
  return left ? word * 64 + (uint32_t)__builtin_ctzll(left) : span->at;
}

void hak_span_format(hak_piece_t *span, uint32_t first, uint32_t steps) {
  span->first = span->at = first;
  span->end = steps;
  span->live = span->live_steps = 0;
}

/* The lists of free blocks. A block is in the list of the largest class that it can serve. */

static uint32_t list_for(size_t bytes) {
  if (bytes > HAK_REGION_SMALL_MAX) {
    return 0;
  }
  uint32_t cls = hak_class_of(bytes);
  return hak_class_sizes[cls] == bytes ? cls : cls - 1;
}

static void list(hak_region_t *region, const hak_piece_t *span, uint32_t step, uint32_t steps) {
  size_t bytes = (size_t)steps << HAK_BLOCK_SHIFT;
  uint32_t which = list_for(bytes);
  hak_region_free_t *block = block_at(span, step);
  HAK_LIST_PUSH(region->free[which], block, next, prev);
  region->listed |= (uint64_t)1 << which;
  region->free_bytes += bytes;
}

/* Whether a word of a free block leads to memory that may be read: to the same span, or to another one. */
static bool leads_to_span(const hak_region_t *region, const hak_region_free_t *block, const hak_region_free_t *other) {
  bool same = ((uintptr_t)block ^ (uintptr_t)other) < HAK_SLAB_BYTES && !region->given;
  return same || hak_piece_at(other);
}

/* Its words may have been written to since it was freed. */
static void unlist(hak_region_t *region, hak_region_free_t *block, size_t bytes) {
  uint32_t which = list_for(bytes);
  hak_region_free_t *next = block->next, *prev = block->prev;
  bool sound = region->free[which] == block ? !prev : prev && leads_to_span(region, block, prev) && prev->next == block;
  if (!sound || (next && (!leads_to_span(region, block, next) || next->prev != block))) {
    hak_misuse("malloc", HAK_MISUSE_CORRUPTED, block);
  }
  if (next) {
    next->prev = prev;
  }
  *(prev ? &prev->next : &region->free[which]) = next;
  if (!region->free[which]) {
    region->listed &= ~((uint64_t)1 << which);
  }
  region->free_bytes -= bytes;
}

void hak_span_forget_lists(hak_region_t *region) {
  memset(region->free, 0, sizeof region->free);
  region->listed = 0;
  region->free_bytes = region->freed_since = 0;
}

/* Taking. */

static void *hand_out(hak_region_t *region, hak_piece_t *span, uint32_t step, uint32_t steps) {
  set(&span->bits[step / 64].start, step, true);
  set(&span->bits[step / 64].used, step, true);
  span->live++;
  span->live_steps += steps;
  size_t bytes = (size_t)steps << HAK_BLOCK_SHIFT;
  region->live_blocks++;
  region->live_bytes += bytes;
  region->allocated += bytes;
  return block_at(span, step);
}

static void make_free(hak_region_t *region, hak_piece_t *span, uint32_t step, uint32_t steps) {
  set(&span->bits[step / 64].start, step, true);
  list(region, span, step, steps);
}

/* May be more than a span has. */
static size_t steps_to_alignment(const hak_piece_t *span, uint32_t step, size_t align) {
  uintptr_t at = (uintptr_t)block_at(span, step);
  return (hak_round_up(at, align) - at) >> HAK_BLOCK_SHIFT;
}

/* From the unused part of a span. */
static void *take_unused(hak_region_t *region, hak_piece_t *span, uint32_t steps, size_t align, hak_region_ask_t *ask) {
  size_t lead = steps_to_alignment(span, span->at, align);
  if (span->at + lead + steps > span->end) {
    return NULL;
  }
  uint32_t before = span->at, at = before + (uint32_t)lead;
  size_t apart = region->given ? 0 : HAK_SPAN_APART;
  size_t reach = hak_round_up(((size_t)(at + steps) << HAK_BLOCK_SHIFT) + apart, HAK_REGION_PAGE);
  if (reach > span->charged) {
    if (!hak_region_charge(region, reach - span->charged, ask)) {
      return NULL;
    }
    span->charged = reach;
    hak_region_raise_peaks(region);
  }
  span->at = at + steps;
  if (at > before) {
    make_free(region, span, before, at - before);
  }
  return hand_out(region, span, at, steps);
}

/* A part of a free block. What is left of it is free. */
static void *take_part(hak_region_t *region, hak_region_free_t *block, uint32_t steps, size_t align) {
  hak_piece_t *span = hak_piece_at(block);
  uint32_t step = step_of(span, block), has = next_start(span, step + 1) - step;
  size_t lead_steps = steps_to_alignment(span, step, align);
  if (lead_steps + steps > has) {
    return NULL;
  }
  uint32_t lead = (uint32_t)lead_steps;
  unlist(region, block, (size_t)has << HAK_BLOCK_SHIFT);
  if (lead > 0) {
    list(region, span, step, lead);
  }
  if (has > lead + steps) {
    make_free(region, span, step + lead + steps, has - lead - steps);
  }
  return hand_out(region, span, step + lead, steps);
}

/* A block of the list whose length is nearly that of the request is taken whole. */
static void *take_listed(hak_region_t *region, uint32_t cls) {
  hak_region_free_t *block = region->free[cls];
  if (!block) {
    return NULL;
  }
  hak_piece_t *span = hak_piece_at(block);
  uint32_t step = step_of(span, block), steps = next_start(span, step + 1) - step;
  unlist(region, block, (size_t)steps << HAK_BLOCK_SHIFT);
  return hand_out(region, span, step, steps);
}

static void *take_larger(hak_region_t *region, uint32_t cls, uint32_t steps, size_t align) {
  uint64_t lists = cls > 0 ? region->listed >> cls << cls : 0;
  void *found = NULL;
  for (; lists && !found; lists &= lists - 1) {
    found = take_part(region, region->free[__builtin_ctzll(lists)], steps, align);
  }
  for (hak_region_free_t *block = region->free[0], *next; block && !found; block = next) {
    next = block->next;
    if (next && !leads_to_span(region, block, next)) {
      hak_misuse("malloc", HAK_MISUSE_CORRUPTED, block);
    }
    found = take_part(region, block, steps, align);
  }
  return found;
}

/* Join free neighbours in all spans. The one with most room serves next. */
static void join(hak_region_t *region) {
  hak_span_forget_lists(region);
  region->empty = NULL;
  for (hak_piece_t *span = region->pieces; span; span = span->next) {
    hak_piece_t *current = region->current;
    if (span->is_span) {
      hak_span_list_locked(region, span);
      if (span->live == 0 && current && span != current) {
        span->link = region->empty;
        region->empty = span;
      } else {
        region->current = !current || span->end - span->at > current->end - current->at ? span : current;
      }
    }
  }
}

/* From the span in use, or an empty one. */
static void *take_fresh(hak_region_t *region, uint32_t steps, size_t align, bool *zeroed, hak_region_ask_t *ask) {
  void *block = NULL;
  do {
    if (region->current) {
      *zeroed = region->current->zeroed;
      block = take_unused(region, region->current, steps, align, ask);
    }
    bool next = !block && !ask->met && region->empty;
    if (!next) {
      return block;
    }
    region->current = region->empty;
    region->empty = region->current->link;
  } while (true);
}

void *hak_span_take_locked(hak_region_t *region, size_t bytes, size_t align, bool *zeroed, hak_region_ask_t *ask) {
  uint32_t cls = bytes <= HAK_REGION_SMALL_MAX ? hak_class_of(bytes > 0 ? bytes : 1) : 0;
  size_t size = cls > 0 ? hak_class_sizes[cls] : hak_round_up(bytes, HAK_BLOCK_MIN);
  uint32_t steps = (uint32_t)(size >> HAK_BLOCK_SHIFT);
  *zeroed = false;
  void *block = align <= HAK_BLOCK_MIN && cls > 0 ? take_listed(region, cls) : NULL;
  block = block ? block : take_fresh(region, steps, align, zeroed, ask);
  if (!block) { /* at a limit, what is free counts more than the time to find it */
    size_t part = region->span_bytes / (ask->met ? JOINED_PART_AT_LIMIT : JOINED_PART);
    *zeroed = false;
    ask->met = NULL;
    if (region->freed_since >= part && region->free_bytes >= part) {
      join(region);
    }
    block = take_larger(region, cls, steps, align);
    block = block ? block : take_fresh(region, steps, align, zeroed, ask);
  }
  return block;
}

/* Returning. */

static uint32_t step_of_live(const hak_piece_t *span, const void *block, const char *function) {
  uint32_t step = step_of(span, block);
  bool inside = (uintptr_t)block % HAK_BLOCK_MIN == 0 && step >= span->first && step < span->at;
  bool starts_here = inside && starts(span, step);
  if (HAK_UNLIKELY(!starts_here || !is_live(span, step))) {
    hak_misuse(function, starts_here ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_NOT_START, block);
  }
  return step;
}

size_t hak_span_usable(const hak_piece_t *span, const void *block, const char *function) {
  uint32_t step = step_of_live(span, block, function);
  return (size_t)(next_start(span, step + 1) - step) << HAK_BLOCK_SHIFT;
}

void hak_span_reset_locked(hak_piece_t *span) {
  hak_piece_wipe(span);
  memset(span->bits, 0, (span->at + 63) / 64 * sizeof *span->bits);
  hak_span_format(span, span->first, span->end);
  span->zeroed = false;
}

void hak_span_unlist_all(hak_region_t *region, hak_piece_t *span) {
  for (uint32_t step = next_start(span, span->first), next; step < span->at; step = next) {
    next = next_start(span, step + 1);
    unlist(region, block_at(span, step), (size_t)(next - step) << HAK_BLOCK_SHIFT);
  }
}

hak_piece_t *hak_span_put_locked(hak_region_t *region, hak_piece_t *span, void *block, const char *function) {
  uint32_t step = step_of_live(span, block, function), steps = next_start(span, step + 1) - step;
  size_t bytes = (size_t)steps << HAK_BLOCK_SHIFT;
  set(&span->bits[step / 64].used, step, false);
  span->live--;
  span->live_steps -= steps;
  region->live_blocks--;
  region->live_bytes -= bytes;
  region->freed += bytes;
  region->freed_since += bytes;
  if (HAK_UNLIKELY(hak_hard.zero)) {
    memset(block, 0, bytes);
  }
  list(region, span, step, steps);
  if (HAK_LIKELY(span->live > 0) || region->walks) {
    return NULL;
  }
  hak_span_unlist_all(region, span);
  hak_span_reset_locked(span);
  bool stays = span == region->current || region->given;
  return stays ? NULL : span;
}

void hak_span_list_locked(hak_region_t *region, hak_piece_t *span) {
  uint32_t next;
  for (uint32_t step = next_start(span, span->first); step < span->at; step = next) {
    next = next_start(span, step + 1);
    if (is_live(span, step)) {
      continue;
    }
    for (; next < span->at && !is_live(span, next); next = next_start(span, next + 1)) {
      set(&span->bits[next / 64].start, next, false);
    }
    bool ends = span == region->current || step == span->first;
    if (next < span->at || !ends) {
      list(region, span, step, next - step);
    } else {
      set(&span->bits[step / 64].start, step, false);
      span->at = next = step;
      span->zeroed = false;
    }
  }
}

uint32_t hak_span_next_live(const hak_piece_t *span, uint32_t step) {
  for (step = next_start(span, step); step < span->at && !is_live(span, step); step = next_start(span, step + 1)) {
  }
  return step < span->at ? step : span->end;
}

void hak_span_check_locked(const hak_piece_t *span) {
  uint32_t live = 0, live_steps = 0, covered = span->first;
  for (uint32_t step = next_start(span, span->first), next; step < span->at; step = next) {
    HAK_VERIFY(step == covered);
    covered = next = next_start(span, step + 1);
    live += is_live(span, step);
    live_steps += is_live(span, step) ? next - step : 0;
  }
  HAK_VERIFY(covered == span->at && span->at <= span->end);
  HAK_VERIFY(live == span->live && live_steps == span->live_steps);
  HAK_VERIFY(span->at == span->first || span->charged >= (size_t)span->at << HAK_BLOCK_SHIFT);
}
