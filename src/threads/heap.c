/* Assigns caches to threads: new threads, ended threads, parked heaps, forks. slow.c stands above; cache.c stands
 * below. */
#include "heap.h"

#include "background.h"
#include "depot.h"

#include <pthread.h>

/* The front is enough: nothing else is read before a thread has a heap. The loader writes to all of it. */
const hak_heap_front_t hak_heap_no_front HAK_LAST_CONSTANT = {
    .bin = {[0 ... HAK_CLASS_COUNT - 1] = {.head = HAK_NO_BLOCK}},
    .batch = {[0 ... HAK_BATCH_LAST - 1] = {.head = HAK_NO_BLOCK}}};
static _Thread_local bool gone __attribute__((tls_model("initial-exec")));
_Thread_local hak_heap_t *hak_heap __attribute__((tls_model("initial-exec"))) = HAK_HEAP_NONE;
_Thread_local hak_heap_t *hak_heap_operators __attribute__((tls_model("initial-exec"))) = HAK_HEAP_NONE;

hak_lock_t hak_heaps_lock HAK_START_DATA = HAK_LOCK_INIT;
hak_heap_t *hak_heaps_all;
static struct {
  hak_heap_t *idle; /* heaps without blocks */
  _Atomic(hak_heap_t *) parked;
  size_t parked_bytes;
  hak_heap_t *maybe_orphan; /* no heap before this one in the list of all is an orphan */
  size_t busy;              /* number of heaps that belong to a thread, or are being closed */
  size_t closing;           /* the busy heaps that another thread closes */
  _Atomic size_t orphans;   /* the busy heaps whose threads did not survive a fork */
  uint32_t forks;           /* forks that led to this process */
  _Atomic uint64_t key;     /* the key + 1; 0: none yet */
} heaps;

/* The heap of a thread in a call that other libraries may intercept (hak_heap_step_aside); else NULL. */
static _Thread_local hak_heap_t *set_aside __attribute__((tls_model("initial-exec")));

_Atomic uint64_t hak_heap_forced_slow HAK_START_DATA;

static bool has_heap(void) {
  return hak_heap != HAK_HEAP_NONE;
}

/* The thread has no heap from here on, and gets none. */
static void give_up(void) {
  gone = true;
  hak_heap = hak_heap_operators = HAK_HEAP_NONE;
}

/* Clear the limit of each such bin. The fast path then finds no valid block start, and frees on the slow path. */
static void force_slow_locked(hak_heap_t *heap) {
  bool all = hak_option(HAK_OPTION_CHECK_FREES) || hak_hard.on;
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    if (all || hak_heap_forces_slow(c)) {
      __atomic_store_n(&heap->bin[c].limit, 0, __ATOMIC_RELAXED);
    }
  }
}

static void tell_background_locked(void) {
  hak_background_set_threads(heaps.busy - heaps.closing - heaps.orphans);
}

void hak_heap_force_slow(uint64_t classes) {
  if ((classes & ~atomic_fetch_or(&hak_heap_forced_slow, classes)) == 0 && classes != 0) {
    return;
  }
  hak_lock(&hak_heaps_lock);
  for (hak_heap_t *heap = hak_heaps_all; heap; heap = heap->next) {
    force_slow_locked(heap);
  }
  tell_background_locked(); /* the option may just have been read */
  hak_unlock(&hak_heaps_lock);
}

/* A busy heap belongs to a thread of this process, so it is no orphan. */
static void set_busy_locked(hak_heap_t *heap, bool busy) {
  heap->forks = heaps.forks;
  heap->busy = busy;
  heap->filled |= busy;
  heaps.busy += busy ? 1 : (size_t)-1;
  hak_policy_set_open(heaps.busy);
  tell_background_locked();
}

/* closed_by_another: the heap counts in `closing`. */
static void put_idle(hak_heap_t *heap, bool closed_by_another) {
  hak_lock(&hak_heaps_lock);
  heaps.closing -= closed_by_another;
  heap->next_idle = heaps.idle;
  heaps.idle = heap;
  heap->filled = false;
  set_busy_locked(heap, false);
  hak_unlock(&hak_heaps_lock);
}

/* The heap of an ended thread is parked with its blocks, if they are few. The next thread starts with them, instead of
 * a first refill for each class. */
static bool may_park(const hak_heap_t *heap) {
  bool counted = false; /* other threads need its share of the sampler quota */
  for (uint32_t c = hak_bin_next_touched(heap, 0); c < HAK_CLASS_COUNT; c = hak_bin_next_touched(heap, c)) {
    counted |= heap->info[c].batch_magazine.size > 0;
  }
  /* after a fall in use, a few cached blocks could keep otherwise empty slabs */
  return !counted && !hak_hard.on && heap->parked_bytes <= HAK_PARKED_BYTES / HAK_PARKED_HEAPS &&
         !hak_retain_has_fallen();
}

/* False: the heap holds too much or a damaged block. While it is verified, its blocks do not look free, so no child of
 * a fork may find it in the list then. */
static bool park(hak_heap_t *heap) {
  heap->parked_ms = hak_os_now_ms();
  heap->parked_bytes = hak_bins_bytes(heap);
  if (!may_park(heap)) {
    return false;
  }
  hak_cache_drop_currents(heap);
  hak_lock(&hak_heaps_lock);
  bool room = heaps.parked_bytes + heap->parked_bytes <= HAK_PARKED_BYTES;
  const hak_free_block_t *damaged = room ? hak_verify_find_damaged(heap) : NULL;
  if (room && !damaged) {
    give_up();
    heaps.parked_bytes += heap->parked_bytes;
    heap->next_idle = heaps.parked;
    heaps.parked = heap;
    set_busy_locked(heap, false);
  }
  hak_unlock(&hak_heaps_lock);
  if (damaged) {
    hak_verify_damaged(damaged, "free");
  }
  return room && !damaged;
}

/* Make the parked heap the calling thread's. In the child of a fork from a signal handler, it still is. */
static hak_heap_t *unpark_locked(void) {
  hak_heap_t *heap = heaps.parked;
  if (heap) {
    heaps.parked = heap->next_idle;
    heaps.parked_bytes -= heap->parked_bytes;
    hak_heap = heap;
    set_busy_locked(heap, true);
  }
  return heap;
}

/* The heaps count as busy while they are closed, so that in the child of a fork they are orphans. */
void hak_heap_close_parked(uint64_t until_ms) {
  hak_heap_t *young = NULL, *old, *next; /* the youngest comes first */
  hak_lock(&hak_heaps_lock);
  for (old = heaps.parked; old && old->parked_ms > until_ms; old = old->next_idle) {
    young = old;
  }
  if (young) {
    young->next_idle = NULL;
  } else {
    heaps.parked = NULL;
  }
  for (hak_heap_t *heap = old; heap; heap = heap->next_idle) {
    heaps.parked_bytes -= heap->parked_bytes;
    heaps.closing++;
    set_busy_locked(heap, true);
  }
  hak_unlock(&hak_heaps_lock);
  for (; old; old = next) {
    next = old->next_idle;
    hak_cache_close(old, "free");
    put_idle(old, true);
  }
}

void hak_heap_age_parked(void) {
  if (atomic_load_explicit(&heaps.parked, memory_order_relaxed)) {
    uint64_t now_ms = hak_os_now_ms(), decay_ms = (uint64_t)hak_option(HAK_OPTION_DECAY);
    hak_heap_close_parked(now_ms > decay_ms ? now_ms - decay_ms : 0);
  }
}

static void close_mine(hak_heap_t *heap) {
  hak_cache_close(heap, "free");
  give_up(); /* before another thread can get the heap */
  put_idle(heap, false);
}

/* Runs when a thread ends, perhaps before the destructors of other libraries, which may still allocate. */
static void thread_ends(void *value) {
  hak_heap_t *heap = value;
  hak_hook_heap.thread_ends();
  if (value == &gone) { /* the heap went before */
    return;
  }
  if (!park(heap)) {
    close_mine(heap);
  }
  hak_background_thread_ends();
}

static hak_heap_t *make_heap(void) {
  hak_freed_start();
  hak_heap_t *heap = hak_meta_alloc_in_page(sizeof *heap);
  if (heap) {
    heap->key = atomic_load_explicit(&hak_key, memory_order_relaxed);
    hak_lock(&hak_heaps_lock);
    heap->next = hak_heaps_all;
    hak_heaps_all = heap;
    hak_unlock(&hak_heaps_lock);
  }
  return heap;
}

/* Avoid key 0: a program that uses a key without making it would get this one. */
static bool make_key(pthread_key_t *key) {
  bool made = pthread_key_create(key, thread_ends) == 0;
  pthread_key_t first = made ? *key : 1;
  if (first == 0 && pthread_key_create(key, thread_ends) == 0) {
    pthread_key_delete(first);
  }
  return made;
}

/* Other libraries may define the function that makes keys, so no lock is held. If several threads make one at once, one
 * key stays. 0: none. */
static uint64_t key_plus_1(void) {
  uint64_t seen = atomic_load_explicit(&heaps.key, memory_order_acquire);
  pthread_key_t key;
  if (seen == 0 && make_key(&key)) {
    if (atomic_compare_exchange_strong_explicit(&heaps.key, &seen, (uint64_t)key + 1, memory_order_acq_rel,
                                                memory_order_acquire)) {
      return (uint64_t)key + 1;
    }
    pthread_key_delete(key);
  }
  return seen;
}

static hak_heap_t *acquire(void) {
  hak_lock(&hak_heaps_lock);
  hak_heap_t *parked = unpark_locked(), *heap = parked ? parked : heaps.idle;
  if (heap && !parked) {
    heaps.idle = heap->next_idle;
  }
  hak_unlock(&hak_heaps_lock);
  heap = heap ? heap : make_heap();
  if (heap) {
    if (!parked) {
      hak_lock(&hak_heaps_lock); /* statistics may read the heap, which another thread had */
      hak_cache_open(heap);
      hak_unlock(&hak_heaps_lock);
    }
    hak_heap = heap; /* a signal handler may fork from here on; and pthread_setspecific may allocate */
    heap->thread = hak_os_thread_id();
    hak_lock(&hak_heaps_lock);
    if (!parked) {
      set_busy_locked(heap, true);
    }
    force_slow_locked(heap);
    hak_unlock(&hak_heaps_lock);
  }
  return heap;
}

hak_heap_t *hak_heap_mine(void) {
  if (HAK_LIKELY(has_heap()) || gone) {
    return has_heap() ? hak_heap : NULL;
  }
  hak_heap_t *heap = acquire();
  uint64_t key = heap ? key_plus_1() : 0;
  if (key > 0) {
    pthread_setspecific((pthread_key_t)(key - 1), heap);
  }
  return heap;
}

void hak_heap_expect_end(void) {
  uint64_t key = atomic_load_explicit(&heaps.key, memory_order_acquire);
  if (!hak_heap_mine() && key > 0 && !pthread_getspecific((pthread_key_t)(key - 1))) {
    pthread_setspecific((pthread_key_t)(key - 1), &gone);
  }
}

void hak_heap_leave(void) {
  if (has_heap()) { /* libraries that intercept the start of threads allocate in them */
    uint64_t key = atomic_load_explicit(&heaps.key, memory_order_acquire);
    if (key > 0) {
      pthread_setspecific((pthread_key_t)(key - 1), NULL);
    }
    close_mine(hak_heap);
  }
  give_up();
  hak_lock(&hak_heaps_lock);
  tell_background_locked(); /* it counts without this thread from here on */
  hak_unlock(&hak_heaps_lock);
}

void hak_heap_step_aside(hak_aside_t *aside) {
  *aside = (hak_aside_t){hak_heap, hak_heap_operators, gone, false};
  hak_freed_start();
  set_aside = has_heap() ? hak_heap : set_aside; /* a signal handler may fork from here on */
  give_up();
}

void hak_heap_step_back(const hak_aside_t *aside) {
  hak_heap = aside->heap;
  hak_heap_operators = aside->operators;
  gone = aside->gone;
  set_aside = has_heap() ? NULL : set_aside;
}

void hak_heap_flush_mine(const char *function) {
  if (has_heap()) {
    hak_cache_flush(hak_heap, function);
  }
}

void hak_heap_verify_mine(const char *function) {
  if (has_heap()) {
    hak_verify_cache(hak_heap, function);
  } else {
    hak_depot_verify(function);
  }
}

bool hak_heap_holds(const void *block, uint32_t cls) {
  bool held = (!hak_class_is_run(cls) && hak_verify_slab_holds(block)) || hak_depot_holds(block, cls);
  if (!held) {
    hak_lock(&hak_heaps_lock);
    for (const hak_heap_t *heap = hak_heaps_all; heap && !held; heap = heap->next) {
      held = hak_verify_cache_holds(heap, cls, block);
    }
    hak_unlock(&hak_heaps_lock);
  }
  return held;
}

void hak_heap_set_thread_id_place(const uint32_t field[3]) {
  hak_os_set_thread_id_place(field);
  if (has_heap()) {
    hak_heap->thread = hak_os_thread_id();
  }
}

bool hak_heap_is_orphan(const hak_heap_t *heap) {
  return heap->busy && heap->forks != heaps.forks;
}

void hak_heap_check(void) {
  hak_lock(&hak_heaps_lock);
  for (hak_heap_t *heap = hak_heaps_all; heap; heap = heap->next) {
    if (heap->filled && !hak_heap_is_orphan(heap)) {
      hak_verify_check(heap);
    }
  }
  hak_unlock(&hak_heaps_lock);
}

hak_heap_t *hak_heap_fork_child(bool alone) {
  hak_heap_t *heap = set_aside ? set_aside : hak_heap;
  bool mine = (set_aside || has_heap()) && heap->busy;
  if (!alone || heaps.busy != mine) {
    heaps.forks++;
    heaps.orphans = heaps.busy - mine;
    heaps.closing = 0;
    heaps.maybe_orphan = hak_heaps_all;
  }
  if (mine) {
    heap->forks = heaps.forks;
    heap->thread = hak_os_thread_id();
  }
  hak_os_know_process();
  hak_background_fork_child(mine);
  return mine ? heap : NULL;
}

static hak_heap_t *take_orphan(void) {
  hak_lock(&hak_heaps_lock);
  hak_heap_t *heap = heaps.maybe_orphan;
  while (heap && !hak_heap_is_orphan(heap)) {
    heap = heap->next;
  }
  heaps.maybe_orphan = heap;
  if (heap) {
    heap->forks = heaps.forks;
    heaps.orphans--;
    heaps.closing++;
  }
  hak_unlock(&hak_heaps_lock);
  return heap;
}

bool hak_heap_adopt_orphan(void) {
  hak_heap_t *heap = atomic_load_explicit(&heaps.orphans, memory_order_relaxed) > 0 ? take_orphan() : NULL;
  if (heap) {
    hak_cache_close(heap, NULL);
    put_idle(heap, true);
  }
  return heap != NULL;
}
