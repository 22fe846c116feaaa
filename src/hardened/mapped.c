/* Large blocks of the hardened profile: mappings between pages without access. hardened.c stands above, os.c below. */
#include "mapped.h"

#include "blocks/blocks.h"

#include <string.h>

enum {
  TABLE_FIRST = 1024,
  GUARD_PAGES_MAX = 16,
  REGIONS_MAX = 1024, /* freed regions whose addresses wait */
};
static const unsigned char FILL = 0xb5;

hak_lock_t hak_mapped_lock = HAK_LOCK_INIT;

typedef struct region {
  char *base; /* the first page without access; NULL: an empty entry */
  size_t total;
  char *block;
  size_t asked;
  char *first, *last; /* the pages of the block; all have access if the region is filled */
  bool filled;
  bool data; /* of a type without pointers */
} region_t;

/* Live blocks by a hash of their addresses, in open addressing. */
static struct {
  region_t *at;
  size_t size, count;
} table;
/* Freed regions, which have no access. */
static region_t *waiting; /* REGIONS_MAX entries; NULL: no memory for them */
static size_t waiting_bytes;

void hak_mapped_start(void) {
  waiting = hak_os_map(NULL, REGIONS_MAX * sizeof *waiting);
}

static size_t slot_of(const void *block, size_t size) {
  return (size_t)(((uintptr_t)block >> HAK_PAGE_SHIFT) * 0x9e3779b97f4a7c15U >> 32) & (size - 1);
}

/* The block's entry, or the empty one where it would be. */
static region_t *find_in(region_t *at, size_t size, const void *block) {
  size_t slot = slot_of(block, size);
  while (at[slot].base && at[slot].block != block) {
    slot = (slot + 1) & (size - 1);
  }
  return &at[slot];
}

static region_t *find_locked(const void *block) {
  region_t *found = table.size > 0 ? find_in(table.at, table.size, block) : NULL;
  return found && found->base ? found : NULL;
}

/* Move later entries into the hole, so that searches still find them. */
static void remove_locked(region_t *entry) {
  size_t mask = table.size - 1, hole = (size_t)(entry - table.at);
  for (size_t i = (hole + 1) & mask; table.at[i].base; i = (i + 1) & mask) {
    size_t home = slot_of(table.at[i].block, table.size);
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      table.at[hole] = table.at[i];
      hole = i;
    }
  }
  table.at[hole].base = NULL;
  table.count--;
}

/* Make room for one more entry; the lock is not held over system calls. False: no memory. */
static bool make_room(void) {
  for (;;) {
    hak_lock(&hak_mapped_lock);
    size_t size = table.size;
    bool room = (table.count + 1) * 2 <= size;
    hak_unlock(&hak_mapped_lock);
    size_t wanted = size > 0 ? 2 * size : TABLE_FIRST;
    region_t *fresh = room ? NULL : hak_os_map(NULL, wanted * sizeof *fresh), *old = NULL;
    if (room || !fresh) {
      return room;
    }
    hak_lock(&hak_mapped_lock);
    bool current = table.size == size;
    if (current) {
      for (size_t i = 0; i < size; i++) {
        if (table.at[i].base) {
          *find_in(fresh, wanted, table.at[i].block) = table.at[i];
        }
      }
      old = table.at;
      table.at = fresh;
      table.size = wanted;
    }
    hak_unlock(&hak_mapped_lock);
    if (!current) { /* another thread was first */
      hak_os_unmap_unused(fresh, wanted * sizeof *fresh);
    } else if (old) {
      hak_os_unmap_unused(old, size * sizeof *old);
    }
  }
}

/* Mappings that a region adds: the pages with access split those without. */
enum { MAPPINGS_EACH = 2 };

static void unmap(const region_t *region) {
  hak_os_unmap(region->base, region->total);
  hak_gap_uncount(region->filled ? 0 : MAPPINGS_EACH);
}

/* Reserve the pages and give access to those of the block. */
static bool map_guarded(region_t *region, size_t before, size_t data, size_t align) {
  if (!hak_gap_count(MAPPINGS_EACH)) {
    return false;
  }
  region->base = hak_os_reserve(region->total);
  region->first = (char *)hak_round_up((uintptr_t)region->base + before, align);
  if (region->base && hak_os_make_writable(region->first, data)) {
    return true;
  }
  if (region->base) {
    hak_os_unmap_unused(region->base, region->total);
  }
  hak_gap_uncount(MAPPINGS_EACH);
  return false;
}

static bool map_region(region_t *region, size_t data, size_t align, size_t headroom) {
  size_t page = hak_os_page_bytes(), more = align > page ? align - page : 0;
  size_t before = (1 + hak_chance(GUARD_PAGES_MAX)) * page,
         behind = (1 + hak_chance(GUARD_PAGES_MAX)) * page + hak_round_up(headroom, page);
  align = align > page ? align : page;
  region->total = before + data + more + behind;
  if (region->filled) {
    region->base = hak_os_map(NULL, region->total);
    region->first = (char *)hak_round_up((uintptr_t)region->base + before, align);
  } else if (!map_guarded(region, before, data, align)) {
    return false;
  }
  region->last = region->first + data;
  return region->base != NULL;
}

/* The pages of a block, of which the new ones are reserved, change from so many bytes to others; 0: there is none. */
static void count(size_t before, size_t after) {
  hak_retain_count_apart((int64_t)hak_slices_for(after) - (int64_t)hak_slices_for(before));
  atomic_fetch_add_explicit(&hak_huge_live, (size_t)(after > 0) - (size_t)(before > 0), memory_order_relaxed);
  atomic_fetch_add_explicit(&hak_huge_live_bytes, after - before, memory_order_relaxed);
}

static size_t checked_behind(const region_t *region) {
  const char *limit = region->filled ? region->base + region->total : region->last;
  size_t behind = (size_t)(limit - region->block) - region->asked;
  return behind < HAK_MARGIN_BEHIND ? behind : HAK_MARGIN_BEHIND;
}

static size_t checked_before(const region_t *region) {
  size_t before = (size_t)(region->block - (region->filled ? region->base : region->first));
  return before < HAK_MARGIN_BEFORE ? before : HAK_MARGIN_BEFORE;
}

void *hak_mapped_alloc(size_t bytes, size_t align, size_t headroom, hak_mapped_kind_t kind, bool data_type) {
  region_t region = {.asked = bytes, .filled = kind == HAK_MAPPED_FILLED, .data = data_type};
  size_t page = hak_os_page_bytes();
  if (bytes > PTRDIFF_MAX / 2 || align > PTRDIFF_MAX / 4) {
    return NULL;
  }
  size_t data = hak_round_up(bytes > 0 ? bytes : 1, page), slices = hak_slices_for(data);
  if (!make_room() || !hak_grow_reserve(slices)) {
    return NULL;
  }
  if (!map_region(&region, data, align, headroom)) {
    hak_grow_unreserve(slices);
    return NULL;
  }
  size_t spare = data - bytes, grain = align > HAK_BLOCK_MIN ? align : HAK_BLOCK_MIN;
  region.block = region.first + (align > page ? 0 : spare & -grain);
  size_t before = checked_before(&region);
  memset(region.block - before, FILL, before);
  memset(region.block + bytes, FILL, checked_behind(&region));
  if (!make_room()) { /* other threads may have taken the room */
    unmap(&region);
    hak_grow_unreserve(slices);
    return NULL;
  }
  hak_lock(&hak_mapped_lock);
  *find_in(table.at, table.size, region.block) = region;
  table.count++;
  hak_unlock(&hak_mapped_lock);
  count(0, data);
  return region.block;
}

static bool is_whole_before(const region_t *region) {
  size_t before = checked_before(region);
  return hak_seal_margin_is_filled(region->block - before, before, FILL);
}

static bool is_whole_behind(const region_t *region) {
  return hak_seal_margin_is_filled(region->block + region->asked, checked_behind(region), FILL);
}

static bool contains(const region_t *region, const void *address) {
  return region->base && (uintptr_t)address - (uintptr_t)region->base < region->total;
}

/* Why no live block begins there; searches everything. HAK_MISUSE_INVALID: the address was never one of ours. */
static hak_misuse_t why_locked(const void *address) {
  for (size_t i = 0; waiting && i < REGIONS_MAX; i++) {
    if (contains(&waiting[i], address)) {
      return waiting[i].block == address ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_NOT_START;
    }
  }
  for (size_t i = 0; i < table.size; i++) {
    if (contains(&table.at[i], address)) {
      return HAK_MISUSE_NOT_START;
    }
  }
  return HAK_MISUSE_INVALID;
}

size_t hak_mapped_place(const void *address, size_t *offset) {
  const region_t *region = NULL;
  if (!hak_hard.on || !hak_lock_try(&hak_mapped_lock)) {
    return 0;
  }
  for (size_t i = 0; i < table.size && !region; i++) {
    region = contains(&table.at[i], address) ? &table.at[i] : NULL;
  }
  for (size_t i = 0; waiting && i < REGIONS_MAX && !region; i++) {
    region = contains(&waiting[i], address) ? &waiting[i] : NULL;
  }
  size_t bytes = region ? region->asked : 0;
  *offset = region ? (size_t)((uintptr_t)address - (uintptr_t)region->block) : 0;
  hak_unlock(&hak_mapped_lock);
  return bytes;
}

bool hak_mapped_owns(const void *address) {
  if (!hak_hard.on) {
    return false;
  }
  hak_lock(&hak_mapped_lock);
  bool owns = find_locked(address) != NULL;
  hak_unlock(&hak_mapped_lock);
  return owns;
}

hak_misuse_t hak_mapped_why(const void *address) {
  hak_lock(&hak_mapped_lock);
  hak_misuse_t why = why_locked(address);
  hak_unlock(&hak_mapped_lock);
  return why;
}

/* Copy a live block's entry, and perhaps take it out; aborts if there is none. */
static region_t look_up(const void *block, const char *function, bool take) {
  region_t region = {.base = NULL};
  hak_lock(&hak_mapped_lock);
  region_t *entry = find_locked(block);
  hak_misuse_t why = entry ? HAK_MISUSE_INVALID : why_locked(block);
  if (entry) {
    region = *entry;
    if (take) {
      remove_locked(entry);
    }
  }
  hak_unlock(&hak_mapped_lock);
  if (!region.base) {
    hak_misuse(function, why, block);
  }
  return region;
}

size_t hak_mapped_usable(const void *block, const char *function) {
  return look_up(block, function, false).asked;
}

bool hak_mapped_is_data(const void *block) {
  return look_up(block, "realloc", false).data;
}

/* Give access to pages of the headroom, and leave a page behind them without access. */
static bool extend(region_t *region, size_t bytes) {
  size_t page = hak_os_page_bytes(), data = (size_t)(region->last - region->first);
  size_t more = hak_round_up(bytes - (size_t)(region->last - region->block), page);
  size_t slices = hak_slices_for(data + more) - hak_slices_for(data);
  if (more + page > (size_t)(region->base + region->total - region->last) || !hak_grow_reserve(slices)) {
    return false;
  }
  if (!region->filled && !hak_os_make_writable(region->last, more)) {
    hak_grow_unreserve(slices);
    return false;
  }
  region->last += more;
  count(data, data + more);
  return true;
}

bool hak_mapped_resize(void *block, size_t bytes, bool shrinks) {
  region_t region = look_up(block, "realloc", false);
  size_t room = (size_t)(region.last - region.block), keep = region.asked < bytes ? region.asked : bytes;
  size_t end = region.asked + checked_behind(&region);
  if (bytes > room ? !extend(&region, bytes) : bytes < room / 2 && !shrinks) {
    return false;
  }
  memset(region.block + keep, 0, end - keep);
  region.asked = bytes;
  memset(region.block + bytes, FILL, checked_behind(&region));
  hak_lock(&hak_mapped_lock);
  region_t *entry = find_locked(block);
  entry->asked = bytes;
  entry->last = region.last;
  hak_unlock(&hak_mapped_lock);
  return true;
}

/* Keep a freed region without access until later ones have taken its place. One that was filled does not wait: it would
 * split its neighbours' mapping. */
static void let_wait(region_t region) {
  uint32_t places = hak_hard.delayed_regions < REGIONS_MAX ? hak_hard.delayed_regions : REGIONS_MAX;
  region_t older = region;
  if (hak_os_is_strict()) {
    return; /* it stays mapped, and unused */
  }
  if (waiting && places > 0 && !region.filled && hak_os_withdraw(region.base, region.total)) {
    uint32_t at = hak_chance(places);
    hak_lock(&hak_mapped_lock);
    region_t *place = &waiting[at];
    older = *place;
    *place = region;
    waiting_bytes += region.total - older.total;
    hak_unlock(&hak_mapped_lock);
  }
  if (older.base) {
    unmap(&older);
  }
}

size_t hak_mapped_waiting_bytes(void) {
  return hak_lock_read(&hak_mapped_lock, &waiting_bytes);
}

bool hak_mapped_forget(size_t bytes) {
  bool helps = hak_grow_could(bytes, hak_mapped_waiting_bytes());
  for (size_t i = 0; helps && waiting && i < REGIONS_MAX; i++) {
    hak_lock(&hak_mapped_lock);
    region_t region = waiting[i];
    waiting[i] = (region_t){.base = NULL};
    waiting_bytes -= region.total;
    hak_unlock(&hak_mapped_lock);
    if (region.base) {
      unmap(&region);
    }
  }
  return helps;
}

void hak_mapped_free(void *block, const char *function) {
  region_t region = look_up(block, function, false);
  if (HAK_UNLIKELY(!is_whole_before(&region))) {
    hak_misuse(function, HAK_MISUSE_PAGE_START, block);
  }
  if (HAK_UNLIKELY(!is_whole_behind(&region))) {
    hak_misuse(function, HAK_MISUSE_PAGE_END, block);
  }
  region = look_up(block, function, true); /* of two threads that free it at once, one finds nothing */
  count((size_t)(region.last - region.first), 0);
  let_wait(region);
}

const void *hak_mapped_find_damaged(bool *before) {
  const void *found = NULL;
  if (!hak_lock_try(&hak_mapped_lock)) {
    return NULL;
  }
  for (size_t i = 0; i < table.size && !found; i++) {
    if (table.at[i].base) {
      *before = !is_whole_before(&table.at[i]);
      found = *before || !is_whole_behind(&table.at[i]) ? table.at[i].block : NULL;
    }
  }
  hak_unlock(&hak_mapped_lock);
  return found;
}
