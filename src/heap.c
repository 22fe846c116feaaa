#include "heap.h"

#include "lock.h"
#include "meta.h"
#include "os.h"

hak_heap_t hak_heap_none, hak_heap_gone;
_Thread_local hak_heap_t *hak_heap __attribute__((tls_model("initial-exec"))) = &hak_heap_none;

static struct {
  hak_lock_t lock;
  hak_heap_t *all, *idle;
  size_t busy; /* heaps that a thread has */
  pthread_key_t key;
  bool have_key;
  uint64_t made;
} heaps = {.lock = HAK_LOCK_INIT};

static void put_idle_locked(hak_heap_t *heap) {
  heap->busy = false;
  heap->next_idle = heaps.idle;
  heaps.idle = heap;
  hak_cache_set_open(--heaps.busy);
}

/* Runs at the end of a thread, perhaps before other libraries' destructors, which may still allocate. */
static void thread_ends(void *value) {
  hak_heap_t *heap = value;
  hak_cache_flush(heap, "free");
  hak_heap = &hak_heap_gone; /* before another thread can have it */
  hak_lock(&heaps.lock);
  put_idle_locked(heap);
  hak_unlock(&heaps.lock);
}

static hak_heap_t *make_heap_locked(void) {
  hak_slab_init();
  hak_heap_t *heap = hak_meta_alloc(sizeof *heap);
  if (heap) {
    /* Neither another thread's list nor a slab has this key; and link ^ key is never an address. */
    heap->key = (uintptr_t)(hak_os_random() + ++heaps.made * 0x9e3779b97f4a7c15U) | (uintptr_t)1 << 63;
    heap->next = heaps.all;
    heaps.all = heap;
  }
  return heap;
}

static hak_heap_t *acquire(void) {
  hak_lock(&heaps.lock);
  hak_heap_t *heap = heaps.idle;
  if (heap) {
    heaps.idle = heap->next_idle;
  } else {
    heap = make_heap_locked();
  }
  if (heap) {
    heap->busy = true;
    hak_cache_set_open(++heaps.busy);
    if (!heaps.have_key) {
      heaps.have_key = pthread_key_create(&heaps.key, thread_ends) == 0;
    }
    hak_cache_open(heap);
  }
  hak_unlock(&heaps.lock);
  return heap;
}

hak_heap_t *hak_heap_mine(void) {
  if (HAK_LIKELY(hak_heap != &hak_heap_none)) {
    return hak_heap != &hak_heap_gone ? hak_heap : NULL;
  }
  hak_heap_t *heap = acquire();
  if (heap) {
    hak_heap = heap; /* first, for pthread_setspecific may allocate */
    if (heaps.have_key) {
      pthread_setspecific(heaps.key, heap);
    }
  }
  return heap;
}

void hak_heap_flush_mine(const char *function) {
  if (hak_heap != &hak_heap_none && hak_heap != &hak_heap_gone) {
    hak_cache_flush(hak_heap, function);
  }
}

void hak_heap_verify_mine(const char *function) {
  if (hak_heap != &hak_heap_none && hak_heap != &hak_heap_gone) {
    hak_cache_verify(hak_heap, function);
  }
}

void hak_heap_totals(hak_heap_totals_t totals[HAK_BIN_COUNT]) {
  for (int c = 0; c < HAK_BIN_COUNT; c++) {
    totals[c] = (hak_heap_totals_t){0, 0, 0};
  }
  hak_lock(&heaps.lock);
  for (hak_heap_t *heap = heaps.all; heap; heap = heap->next) {
    for (int c = 1; c < HAK_CLASS_COUNT; c++) {
      hak_shelf_t *shelf = &heap->shelf[c];
      int32_t limit = atomic_load_explicit(&shelf->limit, memory_order_relaxed);
      int32_t room = hak_bin_room(&heap->bin[c]);
      bool closed = atomic_load_explicit(&shelf->closed, memory_order_relaxed);
      totals[c].cached_blocks += !closed && limit > room && heap->busy ? (size_t)(limit - room) : 0;
      totals[c].cached_blocks += atomic_load_explicit(&shelf->foreign_count, memory_order_relaxed);
      totals[c].asked_bytes += atomic_load_explicit(&shelf->asked_bytes, memory_order_relaxed);
      totals[c].asked_count += atomic_load_explicit(&shelf->asked_count, memory_order_relaxed);
    }
  }
  hak_unlock(&heaps.lock);
}

void hak_heap_check(void) {
  hak_lock(&heaps.lock);
  for (hak_heap_t *heap = heaps.all; heap; heap = heap->next) {
    if (heap->busy) {
      hak_cache_check(heap);
    }
  }
  hak_unlock(&heaps.lock);
}

void hak_heap_fork_lock(void) {
  hak_lock(&heaps.lock);
}

static void adopt_orphans(void) {
  for (hak_heap_t *heap = heaps.all; heap; heap = heap->next) {
    if (heap->busy && heap != hak_heap) {
      hak_cache_close_orphan(heap);
      put_idle_locked(heap);
    }
  }
}

void hak_heap_fork_unlock(bool in_child) {
  if (in_child) {
    hak_lock_reset(&heaps.lock);
    adopt_orphans();
  } else {
    hak_unlock(&heaps.lock);
  }
}
