/* More memory for a request: reserve it within the memory limit, map it, and fill it with free chunks. */
#include "limit.h"
#include "purge.h"

static bool reserve_within(size_t slices, size_t limit_bytes) {
  size_t meta = hak_meta_mapped_bytes(), limit = (limit_bytes > meta ? limit_bytes - meta : 0) >> HAK_SLICE_SHIFT;
  for (bool purged = false;; purged = true) {
    hak_lock(&hak_arena.lock);
    size_t used = hak_arena.used_slices + hak_arena.apart_slices + hak_arena.reserved_slices;
    bool fits = used + hak_arena.dirty_slices + slices <= limit;
    hak_arena.reserved_slices += fits ? slices : 0;
    hak_unlock(&hak_arena.lock);
    if (fits || used + slices > limit || purged) {
      return fits;
    }
    hak_purge_all(limit - slices - used);
  }
}

bool hak_grow_reserve(size_t slices) {
  size_t soft = hak_limit_soft_bytes();
  if (HAK_LIKELY(hak_option(HAK_OPTION_MEMORY_LIMIT) == 0 && soft == 0)) {
    return true;
  }
  hak_limit_look();
  size_t hard = hak_limit_bytes();
  if (soft > 0 && (hard == 0 || soft < hard)) {
    if (reserve_within(slices, soft)) {
      return true;
    }
    hak_limit_soft_met = true;
  }
  return hard == 0 || reserve_within(slices, hard);
}

void hak_grow_unreserve(size_t slices) {
  hak_lock(&hak_arena.lock);
  hak_retain_unreserve_locked(slices);
  hak_unlock(&hak_arena.lock);
}

/* Whether the system fills new mappings at once (mlockall). */
static bool fills_mappings(void) {
  size_t page_bytes = hak_os_page_bytes();
  void *page = hak_os_map(NULL, page_bytes);
  bool fills = page && hak_os_is_locked(page);
  if (page) {
    hak_os_unmap_unused(page, page_bytes);
  }
  return fills;
}

bool hak_grow_could(size_t bytes, size_t released) {
  size_t limit = hak_limit_bytes();
  if (limit > 0 && bytes > limit) {
    return false;
  }
  if (bytes <= released || fills_mappings()) {
    return true;
  }
  size_t missing = bytes - released;
  void *probe = hak_os_map(NULL, missing);
  return probe && hak_os_unmap_unused(probe, missing);
}

/* List mapped chunks, of which `filled` hold resident memory; unlocks. */
HAK_NOINLINE static void list_and_unlock(char *base, size_t chunks, size_t filled, bool locked) {
  hak_arena.locked = locked;
  hak_mapping_count_locked(chunks * HAK_CHUNK_SLICES);
  size_t fresh = locked ? chunks : filled > 0 ? chunks - filled : 0; /* the extent is dirty as a whole */
  hak_retain_fetch_locked(filled * HAK_CHUNK_SLICES, 0);
  hak_retain_fetch_locked(fresh * HAK_CHUNK_SLICES, locked ? 0 : chunks * HAK_CHUNK_SLICES);
  hak_extent_put_locked((hak_extent_t){base, chunks, locked || filled > 0, 0});
  hak_unlock(&hak_arena.lock);
}

bool hak_grow(size_t chunks, size_t align, size_t slices, bool special) {
  size_t bytes = chunks << HAK_CHUNK_SHIFT;
  char *base = hak_mapping_new(bytes, align, special && slices > 0);
  size_t filled = 0;
  bool locked = base && hak_os_is_locked(base + bytes - hak_os_page_bytes());
  bool fills = base && slices == 0 && !special && !locked && chunks <= HAK_FILLED_CHUNKS &&
               !hak_os_is_filtered() && /* a filter may kill for MREMAP_FIXED */
               hak_lock_read(&hak_arena.lock, &hak_arena.mapped_slices) < HAK_SPLIT_BELOW;
  if (fills && !hak_purge_into(base, chunks, &filled)) {
    return false;
  }
  bool ok = hak_mapping_lock(base, bytes);
  if (slices > 0) {
    atomic_store_explicit(&hak_arena.low_memory, !ok, memory_order_relaxed);
  }
  if (!ok) {
    return slices > 0 && hak_mapping_slices(slices);
  }
  list_and_unlock(base, chunks, filled, locked);
  return true;
}
