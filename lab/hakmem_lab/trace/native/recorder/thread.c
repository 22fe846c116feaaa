// Threads: their places, their buffers, the time marks in them.
#include "next.h"
#include "recorder.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

enum {
  PERIOD_LEAST = 1,   // words between marks in a slow thread
  PERIOD_MOST = 64,   // largest period of another thread; the period doubles at each mark
  PERIOD_ALONE = 512, // largest period in a process of one thread, which needs no order
  SLOW_WORDS = 64,    // words to which segment->slow_ticks refers
  NAP_NS = 200000,    // first pause between looks for a free buffer; it doubles up to NAP_MOST_NS
  NAP_MOST_NS = 12800000
};
#define PATIENCE_NS UINT64_C(5000000000) // time without a heartbeat after which the collector counts as dead

recorder_thread_t recorder_nobody = {.left = -1};
__thread recorder_thread_t *recorder_self = &recorder_nobody;
static __thread bool thread_over; // its end was recorded
static pthread_key_t thread_key;

static void thread_ends(void *place);

bool recorder_make_key(void) {
  return pthread_key_create(&thread_key, thread_ends) == 0;
}

static uint32_t buffer_pop(segment_t *segment) {
  uint64_t head = atomic_load_explicit(&segment->free_head, memory_order_acquire);
  while ((uint32_t)head != 0) {
    uint32_t index = (uint32_t)head - 1;
    uint64_t rest = ((head >> 32) + 1) << 32 | atomic_load_explicit(&segment->next[index], memory_order_relaxed);
    if (atomic_compare_exchange_weak_explicit(&segment->free_head, &head, rest, memory_order_acquire,
                                              memory_order_acquire))
      return index;
  }
  uint32_t fresh = atomic_load_explicit(&segment->fresh, memory_order_relaxed);
  while (fresh < SEGMENT_BUFFERS)
    if (atomic_compare_exchange_weak(&segment->fresh, &fresh, fresh + 1)) {
      // One call replaces a fault for each page; older kernels refuse it, which does no harm.
      madvise(segment_buffer(segment, fresh), SEGMENT_BUFFER_BYTES, MADV_POPULATE_WRITE);
      return fresh;
    }
  return UINT32_MAX;
}

// Waits for a free buffer. UINT32_MAX: the collector is gone, or has ended the recording.
COLD static uint32_t buffer_wait(segment_t *segment) {
  atomic_fetch_add_explicit(&segment->waits, 1, memory_order_relaxed);
  uint32_t beat = atomic_load(&segment->heartbeat);
  long nap_ns = NAP_NS;
  for (uint64_t waited_ns = 0; waited_ns < PATIENCE_NS && !atomic_load(&segment->stop);) {
    uint32_t index = buffer_pop(segment);
    if (index != UINT32_MAX)
      return index;
    nanosleep(&(struct timespec){0, nap_ns}, NULL);
    waited_ns += (uint64_t)nap_ns;
    nap_ns = nap_ns < NAP_MOST_NS ? 2 * nap_ns : nap_ns;
    if (atomic_load(&segment->heartbeat) != beat) {
      beat = atomic_load(&segment->heartbeat);
      waited_ns = 0;
    }
  }
  atomic_store(&segment->stop, 1);
  return UINT32_MAX;
}

static void buffer_retire(segment_t *segment, recorder_thread_t *self) {
  if (self->cursor == NULL)
    return;
  uint32_t at = atomic_fetch_add_explicit(&segment->queue_tail, 1, memory_order_relaxed) % SEGMENT_QUEUE;
  self->cursor = self->limit = self->end = NULL;
  atomic_store_explicit(&segment->queue[at], self->buffer + 1, memory_order_release);
}

static bool buffer_turn(segment_t *segment, recorder_thread_t *self) {
  buffer_retire(segment, self);
  uint32_t index = buffer_pop(segment);
  if (index == UINT32_MAX && (index = buffer_wait(segment)) == UINT32_MAX)
    return false;
  atomic_store_explicit(&segment->of[index].order, self->order, memory_order_relaxed);
  atomic_store_explicit(&segment->of[index].owner, self->number, memory_order_release);
  self->buffer = index;
  self->order++;
  self->cursor = segment_buffer(segment, index);
  self->end = self->cursor + SEGMENT_BUFFER_WORDS - RECORDER_SLACK_WORDS;
  return true;
}

static void store(recorder_thread_t *self, uint64_t word) {
  atomic_store_explicit((_Atomic uint64_t *)self->cursor, word, memory_order_release);
  self->cursor++;
}

static void mark(const segment_t *segment, recorder_thread_t *self) {
  uint64_t ticks = (segment_clock() - segment->origin) >> SEGMENT_CLOCK_SHIFT;
  uint32_t most = atomic_load_explicit(&segment->threads, memory_order_relaxed) > 1 ? PERIOD_MOST : PERIOD_ALONE;
  if ((ticks - self->last_ticks) * SLOW_WORDS > segment->slow_ticks * self->period)
    self->period = PERIOD_LEAST;
  else
    self->period = self->period * 2 < most ? self->period * 2 : most;
  self->last_ticks = ticks;
  store(self, ticks << RAW_CODE_BITS | (RAW_SIZE_LIMIT + RAW_TIME));
  self->limit = self->cursor + self->period < self->end ? self->cursor + self->period : self->end;
}

// False: the recording is over.
static bool append(recorder_thread_t *self, uint64_t first, uint64_t second) {
  segment_t *segment = recorder_home->segment;
  bool turned = self->cursor >= self->end;
  if (atomic_load_explicit(&segment->stop, memory_order_relaxed) || (turned && !buffer_turn(segment, self)))
    return false;
  mark(segment, self);
  if (second != 0) {
    atomic_store_explicit((_Atomic uint64_t *)(self->cursor + 1), second, memory_order_release);
    store(self, first);
    self->cursor++;
  } else {
    store(self, first);
  }
  if (self == &recorder_home->stray)
    return true; // its lock is held
  recorder_large_look_if_due();
  if (turned)
    recorder_attach_news();
  return true;
}

// The thread's place from the last recording, else a free one. NULL: all are taken.
static recorder_thread_t *place_take(recorder_home_t *home) {
  recorder_thread_t *self = recorder_self;
  if (self->owner == &recorder_self)
    return self;
  self = NULL;
  recorder_lock(&home->threads_lock);
  if (home->free_places != 0) {
    self = &home->threads[home->free_places - 1];
    home->free_places = self->next;
  } else if (home->used_places < RECORDER_THREADS) {
    self = &home->threads[home->used_places++];
  }
  recorder_unlock(&home->threads_lock);
  return self;
}

static recorder_thread_t *enrol(void) {
  recorder_home_t *home = recorder_home;
  recorder_thread_t *self = place_take(home);
  if (self != NULL) {
    *self = (recorder_thread_t){
        .number = atomic_fetch_add(&home->segment->threads, 1) + 1, .period = PERIOD_LEAST, .owner = &recorder_self};
    self->left = recorder_stack_distance(self);
    recorder_self = self;
    pthread_setspecific(thread_key, self); // may allocate, which already uses the new place
  }
  return self;
}

recorder_thread_t *recorder_place(void) {
  recorder_thread_t *self = recorder_self;
  if (next_looking || thread_over || !recorder_begin())
    return NULL;
  return self == &recorder_nobody || self->number == 0 ? enrol() : self;
}

static bool append_stray(uint64_t first, uint64_t second) {
  recorder_home_t *home = recorder_home;
  recorder_lock(&home->stray_lock);
  if (home->stray.number == 0) {
    home->stray.number = atomic_fetch_add(&home->segment->threads, 1) + 1;
    home->stray.period = PERIOD_LEAST;
  }
  bool goes_on = append(&home->stray, first, second);
  recorder_unlock(&home->stray_lock);
  return goes_on;
}

void *recorder_slow(uint64_t first, uint64_t second, void *block) {
  int error = errno;
  recorder_thread_t *self = recorder_place();
  bool recorded = self != NULL || (!next_looking && recorder_begin());
  if (recorded && !(self != NULL ? append(self, first, second) : append_stray(first, second)))
    recorder_end();
  errno = error;
  return block;
}

// Other destructors may still allocate, so this one asks to be called again as often as the C library allows.
static void thread_ends(void *place) {
  recorder_thread_t *self = place;
  if (self->owner != &recorder_self) // forked since
    return;
  if (++self->ended < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(thread_key, self);
    return;
  }
  bool recorded = self->number != 0 && atomic_load(&recorder_home->state) == HOME_READY;
  if (recorded)
    recorder_put((uint64_t)1 << RAW_CODE_BITS | (RAW_SIZE_LIMIT + RAW_THREAD_END));
  thread_over = true;
  recorder_self = &recorder_nobody;
  if (recorded && atomic_load(&recorder_home->state) == HOME_READY)
    buffer_retire(recorder_home->segment, self);
  recorder_lock(&recorder_home->threads_lock);
  *self = (recorder_thread_t){.next = recorder_home->free_places};
  recorder_home->free_places = (uint32_t)(self - recorder_home->threads) + 1;
  recorder_unlock(&recorder_home->threads_lock);
}
