/* Counters of the observe build; in every other build this file is empty. */
#include "observe.h"

#ifdef HAKMEM_OBSERVE

#include "text.h"

enum { RING_EVENTS = 4096 };

static struct {
  _Atomic uint64_t allocs, frees, asked_bytes;
} classes[HAK_BIN_COUNT];

/* An event: the block's address with bit 0 set for a free. */
static _Atomic uintptr_t ring[RING_EVENTS];
static _Atomic uint64_t events;

static void record(uintptr_t event) {
  uint64_t n = atomic_fetch_add_explicit(&events, 1, memory_order_relaxed);
  atomic_store_explicit(&ring[n % RING_EVENTS], event, memory_order_relaxed);
}

void hak_observe_alloc(const void *block, size_t bytes) {
  uint32_t cls = bytes <= HAK_CACHED_MAX ? hak_class_of(bytes) : (uint32_t)HAK_CLASS_HUGE;
  atomic_fetch_add_explicit(&classes[cls].allocs, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&classes[cls].asked_bytes, bytes, memory_order_relaxed);
  record((uintptr_t)block);
}

void hak_observe_free(const void *block, size_t cls) {
  atomic_fetch_add_explicit(&classes[cls].frees, 1, memory_order_relaxed);
  record((uintptr_t)block | 1);
}

void hak_observe_print(void) {
  hak_text_say("class         allocs        frees  mean request\n");
  for (int c = 1; c < HAK_BIN_COUNT; c++) {
    uint64_t allocs = atomic_load_explicit(&classes[c].allocs, memory_order_relaxed);
    uint64_t frees = atomic_load_explicit(&classes[c].frees, memory_order_relaxed);
    if (allocs + frees > 0) {
      if (c == HAK_CLASS_HUGE) {
        hak_text_say("huge   ");
      } else {
        hak_text_say("%7zu", (size_t)hak_class_sizes[c]);
      }
      hak_text_say("%13zu%13zu%14zu\n", allocs, frees, allocs ? classes[c].asked_bytes / allocs : 0);
    }
  }
}

void hak_observe_explain(const void *block) {
  uint64_t end = atomic_load_explicit(&events, memory_order_relaxed);
  uint64_t first = end > RING_EVENTS ? end - RING_EVENTS : 0;
  for (uint64_t n = first; n < end; n++) {
    uintptr_t event = atomic_load_explicit(&ring[n % RING_EVENTS], memory_order_relaxed);
    if ((event & ~(uintptr_t)1) == (uintptr_t)block) {
      hak_text_say("hakmem: observed: %s, %zu events ago\n", event & 1 ? "freed" : "handed out", end - n);
    }
  }
}

#endif
