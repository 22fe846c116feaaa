// The library preloaded into a program that is recorded: every call goes on to the next allocator, and one word of
// what it did (raw.h) goes into a buffer of the calling thread, in memory that the collector reads (segment.h).
//
// It allocates nothing, prints nothing, keeps no descriptor open, and keeps errno. The fast path is recorder_put: one
// compare and one store. All else, from the first call of a thread to a full buffer, is in recorder_slow.
//
// What belongs to one process lies in recorder_home, which the kernel hands to a forked child as zeros, however it was
// forked: the child's first call finds nothing there, and connects as a process of its own.
#ifndef RECORDER_H
#define RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

#include "format/trace.h"
#include "raw.h"
#include "segment.h"

#pragma GCC visibility push(hidden)

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD __attribute__((cold, noinline))
#define EXPORT __attribute__((visibility("default")))

// One thread. Cache lines of its own, because each call writes there.
typedef struct {
  uint64_t *cursor, *limit; // the next word; where recorder_slow has to look. Both NULL: nothing is recorded
  uint64_t *end;            // of the buffer, less what the longest record needs
  int64_t left;             // bytes until an allocation is asked for its stack; below 0: this one
  uint64_t last_ticks;      // of the last mark
  uint32_t period;          // words between marks
  uint32_t number;          // + 1; 0: the place is free
  uint32_t buffer, order;   // which buffer; how many this thread had before
  uint32_t next;            // of free places, + 1
  uint32_t ended;           // how often its end was announced
  uint32_t unwinding;
  uint64_t chance;   // where its next one comes from
  const void *owner; // the thread's recorder_self; another thread's, or none: the place is of before a fork
} __attribute__((aligned(128))) recorder_thread_t;

// At once, each with a buffer; further ones share the stray place. The buffers that are left go round.
#define RECORDER_THREADS (SEGMENT_BUFFERS / 4)
#define RECORDER_SLACK_WORDS 4
#define RECORDER_FRAMES 256 // of a stack, the innermost

typedef enum { HOME_NEW, HOME_BEGINNING, HOME_READY, HOME_OFF } home_state_t;

// All zero in a new process.
typedef struct {
  _Atomic uint32_t state;
  _Atomic int beginner; // the thread that begins
  segment_t *segment;
  pid_t pid;
  _Atomic uint32_t threads_lock, stray_lock, large_lock;
  uint32_t used_places, free_places; // guarded by threads_lock; the latter + 1
  recorder_thread_t stray;           // guarded by stray_lock: what threads do after their end, or have no place for
  recorder_thread_t threads[RECORDER_THREADS];
  uintptr_t frames[RECORDER_THREADS][RECORDER_FRAMES]; // not on the program's stacks, which may be small
} recorder_home_t;

extern recorder_home_t *recorder_home;
extern recorder_thread_t recorder_nobody; // cursor and limit NULL, left below 0
extern __thread recorder_thread_t *recorder_self __attribute__((tls_model("initial-exec")));

// recorder_process.c: connects this process. False: it is not recorded (by now).
bool recorder_begin(void);
bool recorder_begin_anew(const char *socket_path); // after the end of a recording, or where there was none
bool recorder_over(void);                          // whether no recording goes on
void recorder_end(void);                           // what is done from now on is not recorded
void recorder_lock(_Atomic uint32_t *lock);
void recorder_unlock(_Atomic uint32_t *lock);

// recorder_thread.c: writes a record where the fast path cannot: behind a time mark, into a new buffer, or nowhere.
// second: of a pair, else 0. Keeps errno. Returns block, so that malloc may leave by it.
void *recorder_slow(uint64_t first, uint64_t second, void *block);
bool recorder_make_key(void);
recorder_thread_t *recorder_place(void); // of this thread, taken if it has none; NULL: nothing of its own is recorded

// recorder_stack.c: writes a RAW_STACK for an allocation of so many bytes, if it is its turn. Keeps errno.
void recorder_stack(size_t bytes);
int64_t recorder_stack_distance(recorder_thread_t *); // bytes until the next

// recorder_attach.c: in a program that was running already.
bool recorder_is_preloaded(void); // it was not: this library comes before its allocator
void recorder_attach_news(void);  // libraries that it has loaded since
void recorder_detach(void);       // its calls go to its allocator again

// operators.c: C++'s new and delete.
#define RECORDER_OPERATORS(each) \
  each(_Znwm) each(_Znam) each(_ZnwmRKSt9nothrow_t) each(_ZnamRKSt9nothrow_t) each(_ZnwmSt11align_val_t) \
      each(_ZnamSt11align_val_t) each(_ZnwmSt11align_val_tRKSt9nothrow_t) each(_ZnamSt11align_val_tRKSt9nothrow_t) \
          each(_ZdlPv) each(_ZdaPv) each(_ZdlPvm) each(_ZdaPvm) each(_ZdlPvRKSt9nothrow_t) each(_ZdaPvRKSt9nothrow_t) \
              each(_ZdlPvSt11align_val_t) each(_ZdaPvSt11align_val_t) each(_ZdlPvmSt11align_val_t) \
                  each(_ZdaPvmSt11align_val_t) each(_ZdlPvSt11align_val_tRKSt9nothrow_t) \
                      each(_ZdaPvSt11align_val_tRKSt9nothrow_t)

// recorder_large.c: blocks of TRACE_TOUCH_BYTES and more, of which it is recorded how much was touched.
void recorder_large_new(void *block, size_t bytes);
void recorder_large_gone(void *block); // writes RAW_TOUCHED where it is one
void recorder_large_look(void);        // at all
void recorder_large_look_if_due(void); // the last time is a while ago
// Which blocks free has to look at: these, and those of next.c's reserve.
extern _Atomic uint32_t recorder_filtered; // how many; mostly none, and the filter's lines stay out of the caches
extern uint8_t recorder_filter[4096];
void recorder_filter_add(const void *block, uint8_t times);

static inline size_t recorder_page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

static inline size_t recorder_filter_hash(const void *block) {
  return ((uintptr_t)block >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 52;
}

static inline bool recorder_maybe_special(const void *block) {
  return UNLIKELY(atomic_load_explicit(&recorder_filtered, memory_order_relaxed) != 0) &&
         recorder_filter[recorder_filter_hash(block)] != 0;
}

// The last three bits of an address are none. Where a program frees what was never allocated, they fall on bits of the
// code that are set already.
static inline uint64_t recorder_word(const void *block, uint32_t code) {
  return (uint64_t)(uintptr_t)block << (RAW_CODE_BITS - 3) | code;
}

// Returns block.
static inline void *recorder_put_of(uint64_t word, void *block) {
  recorder_thread_t *self = recorder_self;
  uint64_t *at = self->cursor;
  if (UNLIKELY(at >= self->limit))
    return recorder_slow(word, 0, block);
  atomic_store_explicit((_Atomic uint64_t *)at, word, memory_order_release);
  self->cursor = at + 1;
  return block;
}

static inline void recorder_put(uint64_t word) {
  recorder_put_of(word, NULL);
}

// Before an allocation is put, which the allocator has made.
static inline void recorder_count(size_t bytes) {
  recorder_thread_t *self = recorder_self;
  int64_t left = self->left - (int64_t)bytes;
  if (UNLIKELY(left < 0))
    recorder_stack(bytes);
  else
    self->left = left;
}

// The second word is there before the first, whenever the program may die.
static inline void recorder_put_pair(uint64_t first, uint64_t second) {
  recorder_thread_t *self = recorder_self;
  uint64_t *at = self->cursor;
  if (UNLIKELY(at >= self->limit)) {
    recorder_slow(first, second, NULL);
    return;
  }
  atomic_store_explicit((_Atomic uint64_t *)(at + 1), second, memory_order_release);
  atomic_store_explicit((_Atomic uint64_t *)at, first, memory_order_release);
  self->cursor = at + 2;
}

#pragma GCC visibility pop
#endif
