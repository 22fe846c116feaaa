// Records how much of each large block the program touched. The kernel is asked when a block is freed, and for live
// blocks every millisecond, or less often, so that it takes at most a twentieth of the time.
#include "format/resident.h"
#include "recorder.h"

enum { TABLE = 4096, PROBES = 16, LOOK_PERIOD = 80, LOOK_SHARE = 20 };

typedef struct {
  _Atomic uintptr_t block; // 0: free
  size_t bytes;
  size_t touched; // bytes in its last RAW_TOUCHED
} large_t;

_Atomic uint32_t recorder_filtered;
uint8_t recorder_filter[TABLE];
static large_t table[TABLE];      // guarded by recorder_home->large_lock, which is open in a forked child
static _Atomic uint32_t in_table; // number of blocks in the table
static _Atomic uint64_t next_look;

static size_t touched_bytes(uintptr_t block, size_t bytes) {
  size_t found;
  resident_bytes((const void *)block, bytes, &found);
  return found < bytes ? found : bytes;
}

static large_t *find(uintptr_t wanted, const void *block) {
  size_t at = recorder_filter_hash(block);
  for (size_t i = 0; i < PROBES; i++) {
    large_t *entry = &table[(at + i) % TABLE];
    if (atomic_load_explicit(&entry->block, memory_order_relaxed) == wanted)
      return entry;
  }
  return NULL;
}

static bool ready(void) {
  return recorder_home != NULL && atomic_load_explicit(&recorder_home->state, memory_order_relaxed) == HOME_READY;
}

static void say(uintptr_t block, size_t bytes) {
  recorder_put_pair(recorder_word((const void *)block, RAW_SIZE_LIMIT + RAW_TOUCHED), bytes + 1);
}

// A counter at its maximum stays there.
void recorder_filter_add(const void *block, uint8_t times) {
  uint8_t *count = &recorder_filter[recorder_filter_hash(block)];
  *count = *count < UINT8_MAX - times ? (uint8_t)(*count + times) : UINT8_MAX;
  atomic_fetch_add(&recorder_filtered, 1);
}

static void filter_remove(const void *block) {
  uint8_t *count = &recorder_filter[recorder_filter_hash(block)];
  if (*count < UINT8_MAX)
    (*count)--;
  atomic_fetch_sub(&recorder_filtered, 1);
}

// Adds a block. If the table has no room for it, it is not sampled, and counts as touched.
void recorder_large_new(void *block, size_t bytes) {
  if (!ready())
    return;
  recorder_lock(&recorder_home->large_lock);
  large_t *entry = find(0, block);
  if (entry != NULL) {
    entry->bytes = bytes;
    entry->touched = 0;
    atomic_store_explicit(&entry->block, (uintptr_t)block, memory_order_relaxed);
    atomic_fetch_add(&in_table, 1);
    recorder_filter_add(block, 1);
  }
  recorder_unlock(&recorder_home->large_lock);
}

void recorder_large_gone(void *block) {
  if (!ready() || atomic_load_explicit(&in_table, memory_order_relaxed) == 0)
    return;
  recorder_lock(&recorder_home->large_lock);
  large_t *entry = find((uintptr_t)block, block);
  size_t bytes = entry != NULL ? entry->bytes : 0;
  if (entry != NULL) {
    atomic_store_explicit(&entry->block, 0, memory_order_relaxed);
    atomic_fetch_sub(&in_table, 1);
    filter_remove(block);
  }
  recorder_unlock(&recorder_home->large_lock);
  if (bytes != 0)
    say((uintptr_t)block, touched_bytes((uintptr_t)block, bytes));
}

// Samples all blocks in the table. A record may need a new buffer, whose start calls this again, so a caller that finds
// the lock taken returns. Another thread may free a block meanwhile, but first takes it from the table under the lock,
// so a block in the table is still mapped.
void recorder_large_look(void) {
  uint64_t began = segment_clock();
  if (!ready() || atomic_load_explicit(&in_table, memory_order_relaxed) == 0)
    return;
  if (atomic_exchange_explicit(&recorder_home->large_lock, 1, memory_order_acquire))
    return;
  for (large_t *entry = table; entry < table + TABLE; entry++) {
    uintptr_t block = atomic_load_explicit(&entry->block, memory_order_relaxed);
    if (block == 0 || entry->touched == entry->bytes)
      continue;
    size_t bytes = touched_bytes(block, entry->bytes);
    if (bytes != entry->touched)
      say(block, bytes);
    entry->touched = bytes;
  }
  uint64_t took = segment_clock() - began,
           least = recorder_home->segment->slow_ticks * LOOK_PERIOD << SEGMENT_CLOCK_SHIFT;
  atomic_store_explicit(&next_look, began + (took * LOOK_SHARE > least ? took * LOOK_SHARE : least),
                        memory_order_relaxed);
  recorder_unlock(&recorder_home->large_lock);
}

void recorder_large_look_if_due(void) {
  if (atomic_load_explicit(&in_table, memory_order_relaxed) != 0 &&
      segment_clock() > atomic_load_explicit(&next_look, memory_order_relaxed))
    recorder_large_look();
}
