// The library that is preloaded into a recorded program. It passes every call on to the next allocator, and writes a
// word about it (raw.h) into a buffer of the calling thread, in memory that the collector reads (segment.h).
//
// It allocates nothing, prints nothing, keeps no descriptor open, and keeps errno. The fast path is recorder_put: one
// compare and one store. All other work, from the first call of a thread to a full buffer, is in recorder_slow.
//
// The state of a process lies in recorder_home, which the kernel clears in every forked child. So the child's first
// call finds it empty, and connects as a process of its own.
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

// One thread. It has its own cache lines, because each call writes there.
typedef struct {
  uint64_t *cursor, *limit; // next word; where recorder_slow is needed. Both NULL: nothing is recorded
  uint64_t *end;            // end of the buffer, less the room for the longest record
  int64_t left;             // bytes until the next stack is recorded; below 0: at the next allocation
  uint64_t last_ticks;      // time of the last mark
  uint32_t period;          // words between marks
  uint32_t number;          // thread's number + 1; 0: the place is free
  uint32_t buffer, order;   // index of the buffer; number of buffers so far
  uint32_t next;            // next free place + 1
  uint32_t ended;           // number of calls of its destructor
  uint32_t unwinding;
  uint64_t chance;   // state of its random numbers
  const void *owner; // address of the thread's recorder_self; differs if the place is from before a fork
} __attribute__((aligned(128))) recorder_thread_t;

// Most threads at once with a place and a buffer; further ones share the stray place. The other buffers circulate.
#define RECORDER_THREADS (SEGMENT_BUFFERS / 4)
#define RECORDER_SLACK_WORDS 4
#define RECORDER_FRAMES 256 // most frames of a stack, the innermost

typedef enum { HOME_NEW, HOME_BEGINNING, HOME_READY, HOME_OFF } home_state_t;

// The state of a process; all zero in a new one.
typedef struct {
  _Atomic uint32_t state;
  _Atomic int beginner; // the thread that begins
  segment_t *segment;
  pid_t pid;
  _Atomic uint32_t threads_lock, stray_lock, large_lock;
  uint32_t used_places, free_places; // guarded by threads_lock; free_places: first free place + 1
  recorder_thread_t stray;           // guarded by stray_lock; for threads without a place, or after their end
  recorder_thread_t threads[RECORDER_THREADS];
  uintptr_t frames[RECORDER_THREADS][RECORDER_FRAMES]; // not on the program's stacks, which may be small
} recorder_home_t;

extern recorder_home_t *recorder_home;
extern recorder_thread_t recorder_nobody; // cursor and limit NULL, left below 0
extern __thread recorder_thread_t *recorder_self __attribute__((tls_model("initial-exec")));

// process.c: connects this process. False: it is not recorded at present.
bool recorder_begin(void);
bool recorder_begin_anew(const char *socket_path); // begins a recording, also after the end of an earlier one
bool recorder_over(void);                          // whether no recording is running
void recorder_end(void);                           // stops recording
void recorder_lock(_Atomic uint32_t *lock);
void recorder_unlock(_Atomic uint32_t *lock);

// thread.c: writes a record where the fast path cannot: after a time mark, into a new buffer, or not at all.
// second: second word of a pair, else 0. Keeps errno. Returns block, so that malloc can call it in tail position.
void *recorder_slow(uint64_t first, uint64_t second, void *block);
bool recorder_make_key(void);
recorder_thread_t *recorder_place(void); // this thread's place, taken if needed; NULL: it cannot have one

// stack.c: writes a RAW_STACK for an allocation of this size, if it is sampled. Keeps errno.
void recorder_stack(size_t bytes);
int64_t recorder_stack_distance(recorder_thread_t *); // bytes until the next sample

// attach.c: recording of a program that is already running.
bool recorder_is_preloaded(void); // true: preloaded at the program's start, not attached later
void recorder_attach_news(void);  // redirects slots of newly loaded libraries
void recorder_detach(void);       // restores the slots

// operators.c: C++'s new and delete.
#define RECORDER_OPERATORS(each) \
  each(_Znwm) each(_Znam) each(_ZnwmRKSt9nothrow_t) each(_ZnamRKSt9nothrow_t) each(_ZnwmSt11align_val_t) \
      each(_ZnamSt11align_val_t) each(_ZnwmSt11align_val_tRKSt9nothrow_t) each(_ZnamSt11align_val_tRKSt9nothrow_t) \
          each(_ZdlPv) each(_ZdaPv) each(_ZdlPvm) each(_ZdaPvm) each(_ZdlPvRKSt9nothrow_t) each(_ZdaPvRKSt9nothrow_t) \
              each(_ZdlPvSt11align_val_t) each(_ZdaPvSt11align_val_t) each(_ZdlPvmSt11align_val_t) \
                  each(_ZdaPvmSt11align_val_t) each(_ZdlPvSt11align_val_tRKSt9nothrow_t) \
                      each(_ZdaPvSt11align_val_tRKSt9nothrow_t)

// large.c: blocks of at least TRACE_TOUCH_BYTES, for which the touched bytes are recorded.
void recorder_large_new(void *block, size_t bytes);
void recorder_large_gone(void *block); // before a free; writes RAW_TOUCHED if the block is in the table
void recorder_large_look(void);        // samples all blocks
void recorder_large_look_if_due(void); // the same, if the last time is long enough ago
// A counting filter of the blocks that free must check: those in the table, and those of next.c's reserve.
extern _Atomic uint32_t recorder_filtered; // number of blocks; usually 0, and then the filter is not read
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

// The last three bits of an address are 0. If a program frees an invalid address, they fall on bits of the code that
// are already set.
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

// Counts an allocation for the stack samples. Call it after the allocator, but before the word is put.
static inline void recorder_count(size_t bytes) {
  recorder_thread_t *self = recorder_self;
  int64_t left = self->left - (int64_t)bytes;
  if (UNLIKELY(left < 0))
    recorder_stack(bytes);
  else
    self->left = left;
}

// Writes the second word before the first, so that a pair is complete even if the program dies between them.
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
