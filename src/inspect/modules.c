/* Which addresses are code. unwind.c and images.c call it. */
#include "modules.h"

#include <sys/auxv.h>

enum {
  RANGES_MAX = 1024,
  PAUSE_MS = 50,     /* least pause between two reads */
  PAUSE_FACTOR = 50, /* least pause as a multiple of a read's duration */
};

hak_lock_t hak_modules_lock = HAK_LOCK_INIT;

/* Two tables of the executable ranges, in ascending order. The lowest bit of the version selects the table that readers
 * use; a thread may write the other one meanwhile. */
typedef struct table {
  _Atomic uint32_t count;
  _Atomic uintptr_t start[RANGES_MAX], end[RANGES_MAX];
} table_t;
/* Made on first use: static data of the library would count against the limits of small programs. */
typedef struct known {
  table_t table[2];
  char rows[HAK_MAPS_BUFFER_BYTES]; /* lock: the table's */
} known_t;
static struct {
  _Atomic(known_t *) known;
  _Atomic uint32_t version;
  _Atomic uintptr_t mine_start, mine_end;
  _Atomic uint64_t next_look_ms;
  _Atomic uint64_t next_learn_ms; /* after a read that did not find its caller: time of the next one */
} code;

static uintptr_t load(const _Atomic uintptr_t *word) {
  return atomic_load_explicit(word, memory_order_relaxed);
}
static void store(_Atomic uintptr_t *word, uintptr_t value) {
  atomic_store_explicit(word, value, memory_order_relaxed);
}

static bool add_range(const hak_mapping_t *mapping, void *argument) {
  table_t *table = argument;
  uint32_t count = atomic_load_explicit(&table->count, memory_order_relaxed);
  if (!mapping->executable || count == RANGES_MAX) {
    return true;
  }
  store(&table->start[count], mapping->start);
  store(&table->end[count], mapping->end);
  atomic_store_explicit(&table->count, count + 1, memory_order_relaxed);
  bool mine = hak_map_holds(mapping, (uintptr_t)&hak_modules_look);
  if (mine && !hak_map_holds(mapping, hak_auxiliary(AT_ENTRY))) {
    store(&code.mine_start, mapping->start);
    store(&code.mine_end, mapping->end);
  }
  return true;
}

/* Call it under the lock. NULL: no memory. */
static known_t *known_locked(void) {
  known_t *known = atomic_load_explicit(&code.known, memory_order_relaxed);
  if (!known && (known = hak_meta_alloc(sizeof *known))) {
    atomic_store_explicit(&code.known, known, memory_order_release); /* pairs with find */
  }
  return known;
}

static bool learn_locked(known_t *known) {
  uint32_t version = atomic_load_explicit(&code.version, memory_order_relaxed) + 1;
  table_t *table = &known->table[version % 2];
  atomic_store_explicit(&table->count, 0, memory_order_relaxed);
  bool ok = hak_maps_each(add_range, table, known->rows);
  if (ok) {
    atomic_store_explicit(&code.version, version, memory_order_release); /* pairs with find */
  }
  return ok;
}

uint32_t hak_modules_version(void) {
  return atomic_load_explicit(&code.version, memory_order_relaxed);
}

bool hak_modules_look(void) {
  uint64_t since_ns = hak_os_now_ns();
  if (hak_os_is_filtered() || !hak_lock_try(&hak_modules_lock)) { /* a filter may kill for a file that is opened */
    return false;
  }
  known_t *known = known_locked();
  bool ok = known && learn_locked(known);
  uint64_t took_ms = (hak_os_now_ns() - since_ns) / 1000000;
  atomic_store_explicit(&code.next_look_ms, hak_os_now_ms() + PAUSE_MS + PAUSE_FACTOR * took_ms, memory_order_relaxed);
  hak_unlock(&hak_modules_lock);
  return ok;
}

/* Whether one of the table's ranges holds the address. The answer is invalid if the version has changed meanwhile. */
static bool is_in(const table_t *table, uintptr_t address) {
  uint32_t count = atomic_load_explicit(&table->count, memory_order_relaxed), low = 0, high = count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (address < load(&table->end[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low < count && address >= load(&table->start[low]);
}

static bool find(uintptr_t address) {
  bool found;
  known_t *known = atomic_load_explicit(&code.known, memory_order_acquire);
  if (!known) {
    return false;
  }
  uint32_t version, now = atomic_load_explicit(&code.version, memory_order_acquire);
  do {
    version = now;
    found = is_in(&known->table[version % 2], address);
    atomic_thread_fence(memory_order_acquire);
    now = atomic_load_explicit(&code.version, memory_order_relaxed);
  } while (now != version);
  return found;
}

bool hak_modules_is_code(uintptr_t address) {
  if (HAK_LIKELY(find(address))) {
    return true;
  }
  bool due = address >= hak_os_page_bytes() &&
             hak_os_now_ms() >= atomic_load_explicit(&code.next_look_ms, memory_order_relaxed);
  return due && hak_modules_look() && find(address);
}

bool hak_modules_learn(uintptr_t caller) {
  if (HAK_LIKELY(find(caller))) {
    return true;
  }
  if (hak_os_now_ms() < atomic_load_explicit(&code.next_learn_ms, memory_order_relaxed) || !hak_modules_look()) {
    return false;
  }
  bool found = find(caller);
  uint64_t next = found ? 0 : atomic_load_explicit(&code.next_look_ms, memory_order_relaxed);
  atomic_store_explicit(&code.next_learn_ms, next, memory_order_relaxed);
  return found;
}

bool hak_modules_is_mine(uintptr_t address) {
  return address >= load(&code.mine_start) && address < load(&code.mine_end);
}

bool hak_modules_mapping_of(uintptr_t address, hak_mapping_t *mapping) {
  if (!hak_lock_try(&hak_modules_lock)) {
    return false;
  }
  known_t *known = known_locked();
  bool ok = known && hak_maps_find(address, mapping, known->rows);
  hak_unlock(&hak_modules_lock);
  mapping->name = "";
  return ok;
}
