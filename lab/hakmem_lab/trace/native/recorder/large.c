// Large blocks: how much of each the program touched. The kernel is asked when the block is freed, and of blocks that
// live on every now and then: every millisecond, or so much more rarely that it takes a twentieth of the time.
#include "format/resident.h"
#include "recorder.h"

enum { TABLE = 4096, PROBES = 16, LOOK_PERIOD = 80, LOOK_SHARE = 20 };

typedef struct {
  _Atomic uintptr_t block; // 0: free
  size_t bytes;
  size_t touched; // when it was last said
} large_t;

_Atomic uint32_t recorder_filtered;
uint8_t recorder_filter[TABLE];
static large_t table[TABLE];      // guarded by recorder_home->large_lock, which a forked child finds open
static _Atomic uint32_t in_table; // none: nothing to look at
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

// A count that is full stays so.
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

// A block that finds no room is not looked at, and counts as touched.
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

// A record may need a new buffer, and that one this: whoever finds the lock taken goes on. The block may be freed
// meanwhile by another thread: the lock keeps it from being unmapped only once it was looked up there.
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
