// The measured loop, which runs the operations of the trace.
#include <malloc.h>
#include <stdlib.h>

#include "replay.h"

#define LINE 64u
#define LINES_BYTES 512u // touching writes each cache line of a block up to here, then each page

// Functions that the compiler cannot inline, called through pointers like those of a preloaded library.
static char nothing[LINES_BYTES + LINE];
static __attribute__((noinline)) void *empty_allocate(size_t size) {
  return size == SIZE_MAX ? NULL : nothing;
}
static __attribute__((noinline)) void empty_free(void *block) {
  (void)block;
}
static void *(*volatile allocate_nothing)(size_t) = empty_allocate;
static void (*volatile free_nothing)(void *) = empty_free;

static inline void touch(void *block, uint64_t size, uint64_t below) {
  if (block == NULL || size == 0 || size >= below) {
    return;
  }
  volatile char *at = block;
  uint64_t lines = size < LINES_BYTES ? size : LINES_BYTES;
  for (uint64_t i = 0; i < lines; i += LINE) {
    at[i] = 1;
  }
  for (uint64_t page = replay.page_bytes, i = page; i < size; i += page) {
    at[i] = 1;
  }
  at[size - 1] = 1;
}

// Touches the pages of a large block; `other` holds their number (see touch_early in worker.c).
static inline void touch_pages(void *block, const trace_operation_t *o) {
  if (o->size >= TRACE_TOUCH_BYTES && o->other != 0 && o->kind != TRACE_ALIGNED &&
      replay.options->touch == TOUCH_RECORDED) {
    uint64_t bytes = o->other * replay.page_bytes;
    touch(block, bytes < o->size ? bytes : o->size, UINT64_MAX);
  }
}

// Touches a block at its TRACE_TOUCHED. The size of the block here is known only to the allocator.
static void touch_recorded(void *block, uint64_t size) {
  if (block == NULL || replay.options->touch != TOUCH_RECORDED) {
    return;
  }
  uint64_t room = malloc_usable_size(block);
  touch(block, size < room ? size : room, UINT64_MAX);
}

static inline void *aligned(const trace_operation_t *o) {
  size_t alignment = (size_t)1 << o->other;
  void *block = NULL;
  if (alignment < sizeof(void *)) {
    return malloc(o->size);
  }
  return posix_memalign(&block, alignment, o->size) == 0 ? block : NULL;
}

// Fails on an inconsistent operation of a complete trace: such a trace frees only live blocks, and allocates only into
// empty places. It tolerates this if the allocator refused an allocation.
static __attribute__((cold, noinline)) void check_whole(const worker_t *w, const trace_operation_t *o,
                                                        const char *what) {
  if (replay.complete && !atomic_load(&replay.refused)) {
    replay_fail(REPLAY_BAD_INPUT, "damaged: thread %u %s place %u", w->number, what, o->slot);
  }
}

static __attribute__((cold, noinline)) void refused(worker_t *w) {
  w->counts.failed++;
  atomic_store(&replay.refused, true);
}

static inline void put(worker_t *w, const trace_operation_t *o, void *block) {
  if (block == NULL) {
    refused(w);
  }
  if (atomic_load_explicit(&w->slots[o->slot], memory_order_relaxed) != NULL) {
    check_whole(w, o, "allocates into the occupied");
  }
  atomic_store_explicit(&w->slots[o->slot], block, memory_order_relaxed);
  touch(block, o->size, replay.touch_below);
  touch_pages(block, o);
  w->counts.allocations++;
}

static inline void release(worker_t *w, const trace_operation_t *o, void *block) {
  w->counts.frees++;
  if (block == NULL) {
    check_whole(w, o, "frees the empty");
    w->counts.skipped++;
  }
  free(block);
}

static inline void *take(_Atomic(void *) *slot) {
  void *block = atomic_load_explicit(slot, memory_order_relaxed);
  atomic_store_explicit(slot, NULL, memory_order_relaxed);
  return block;
}

static inline void resize(worker_t *w, _Atomic(void *) *slot, void *old, const trace_operation_t *o) {
  if (old == NULL) {
    check_whole(w, o, "reallocates the empty");
  }
  // A size of 0 would free the block; frees have their own operations.
  void *block = realloc(old, o->size ? o->size : 1);
  w->counts.reallocations++;
  if (block == NULL) {
    refused(w);
    block = old;
  }
  atomic_store_explicit(slot, block, memory_order_relaxed);
  touch(block, o->size, replay.touch_below);
  if (o->kind == TRACE_REALLOC) {
    touch_pages(block, o);
  }
}

static inline __attribute__((always_inline)) void one(worker_t *w, const trace_operation_t *o) {
  switch (o->kind) {
  case TRACE_MALLOC:
    put(w, o, malloc(o->size));
    break;
  case TRACE_FREE:
    release(w, o, take(&w->slots[o->slot]));
    break;
  case TRACE_FREE_FOREIGN: // atomic exchange: in a damaged trace, two threads must not free the same block
    release(w, o, atomic_exchange(&replay.workers[o->other].slots[o->slot], NULL));
    break;
  case TRACE_CALLOC:
    put(w, o, calloc(1, o->size));
    break;
  case TRACE_ALIGNED:
    put(w, o, aligned(o));
    break;
  case TRACE_REALLOC:
    resize(w, &w->slots[o->slot], take(&w->slots[o->slot]), o);
    break;
  case TRACE_REALLOC_FOREIGN: {
    _Atomic(void *) *slot = &replay.workers[o->other].slots[o->slot];
    resize(w, slot, atomic_exchange(slot, NULL), o);
    break;
  }
  case TRACE_TOUCHED:
    touch_recorded(atomic_load_explicit(&replay.workers[o->other].slots[o->slot], memory_order_relaxed), o->size);
    break;
  default:
    break;
  }
}

size_t replay_run(worker_t *w, const trace_operation_t *operations, size_t count) {
  bool by_stack = replay.stacks != NULL;
  for (size_t i = 0; i < count; i++) {
    if (operations[i].kind == TRACE_WAIT) {
      return i;
    }
    if (replay.groups != NULL) {
      replay_blame(w, &operations[i], one);
    } else if (by_stack) {
      replay_by_stack(w, &operations[i], one);
    } else {
      one(w, &operations[i]);
    }
  }
  return count;
}

static inline _Atomic(void *) *slot_of(worker_t *w, const trace_operation_t *o) {
  bool foreign = o->kind == TRACE_FREE_FOREIGN || o->kind == TRACE_REALLOC_FOREIGN || o->kind == TRACE_TOUCHED;
  return foreign ? &replay.workers[o->other].slots[o->slot] : &w->slots[o->slot];
}

// The loop without an allocator, to measure the loop's own cost: it reads slots instead of writing, and touches one
// fixed block.
void replay_run_empty(worker_t *w, const trace_operation_t *operations, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const trace_operation_t *o = &operations[i];
    switch (o->kind) {
    case TRACE_MALLOC:
    case TRACE_CALLOC:
    case TRACE_ALIGNED:
    case TRACE_REALLOC:
    case TRACE_REALLOC_FOREIGN:
      (void)*(void *volatile *)slot_of(w, o);
      touch(allocate_nothing(o->size), o->size < LINES_BYTES ? o->size : LINES_BYTES, replay.touch_below);
      break;
    case TRACE_FREE:
    case TRACE_FREE_FOREIGN:
      free_nothing(atomic_load_explicit(slot_of(w, o), memory_order_relaxed));
      break;
    default:
      break;
    }
  }
}
