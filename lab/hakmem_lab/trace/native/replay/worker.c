// A worker, which replays a thread of the trace: it decodes a batch, runs it, and publishes its progress.
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "replay.h"

#define LARGE_PLACES 512u // large blocks of a batch that can be remembered
#define EMPTY_EVERY 16u   // batches

replay_t replay;

uint64_t replay_clock_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t replay_clock_ns(void) {
  return replay_clock_of(CLOCK_MONOTONIC);
}

uint64_t replay_clock_cost_ns(void) {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 200; i++) {
    uint64_t first = replay_clock_of(CLOCK_THREAD_CPUTIME_ID);
    uint64_t second = replay_clock_of(CLOCK_THREAD_CPUTIME_ID);
    least = second - first < least ? second - first : least;
  }
  return least;
}

void replay_ring(void) {
  atomic_fetch_add_explicit(&replay.bell, 1, memory_order_release);
  syscall(SYS_futex, &replay.bell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

// A TRACE_TOUCHED may come as late as the block's free. If the allocation is in the same batch, the block is touched
// there instead, so that its memory is resident for as long as in the program.
static void touch_early(worker_t *w, uint16_t *large, trace_operation_t *o, long index) {
  uint16_t *place = &large[o->slot % LARGE_PLACES];
  bool sized = o->kind == TRACE_MALLOC || o->kind == TRACE_CALLOC || o->kind == TRACE_REALLOC;
  if (sized) {
    o->other = 0; // number of pages to touch
    if (o->size >= TRACE_TOUCH_BYTES) {
      *place = (uint16_t)(index + 1);
    }
  } else if (o->kind == TRACE_TOUCHED && o->other == w->number && *place != 0) {
    trace_operation_t *allocation = &w->batch[*place - 1];
    if (allocation->slot == o->slot && o->size <= allocation->size) {
      allocation->other = (uint32_t)((o->size + replay.page_bytes - 1) / replay.page_bytes);
      o->kind = TRACE_NOTHING;
    }
  }
}

// The reader has checked every number. Still unchecked are whether a place holds a block, and cycles of waits.
bool replay_decode(worker_t *w) {
  uint16_t large[LARGE_PLACES] = {0};
  w->in_batch = trace_stream_next(w->stream, w->batch, REPLAY_BATCH);
  if (w->in_batch < 0) {
    replay_fail(REPLAY_BAD_INPUT, "%s", trace_stream_error(w->stream));
  }
  for (long i = 0; i < w->in_batch; i++) {
    if (w->batch[i].time_ns > replay.options->until_ns) {
      w->in_batch = i;
    }
  }
  size_t batch_bytes = (size_t)w->in_batch * sizeof(trace_operation_t);
  batch_bytes = (batch_bytes + replay.page_bytes - 1) / replay.page_bytes * replay.page_bytes;
  w->batch_bytes = batch_bytes > w->batch_bytes ? batch_bytes : w->batch_bytes;
  size_t own_bytes = w->batch_bytes + trace_stream_bytes(w->stream);
  replay_count(own_bytes - w->own_bytes);
  w->own_bytes = own_bytes;
  uint64_t highest = w->highest_slot, slots_of_page = replay.page_bytes / sizeof(void *);
  for (long i = 0; i < w->in_batch; i++) {
    trace_operation_t *o = &w->batch[i];
    if (o->kind <= TRACE_ALIGNED && o->slot > highest) {
      highest = o->slot;
    }
    touch_early(w, large, o, i);
  }
  size_t tables = replay.stacks == NULL && replay.groups == NULL ? 1 : 2;
  replay_count(tables * (highest / slots_of_page - w->highest_slot / slots_of_page) * replay.page_bytes);
  w->highest_slot = highest;
  return w->in_batch > 0;
}

void replay_start_clock(stretch_t *s) {
  s->elapsed_ns = replay_clock_ns();
  s->cpu_ns = replay_clock_of(CLOCK_THREAD_CPUTIME_ID);
}

void replay_stop_clock(worker_t *w, const stretch_t *s) {
  uint64_t cpu = replay_clock_of(CLOCK_THREAD_CPUTIME_ID) - s->cpu_ns;
  uint64_t elapsed = replay_clock_ns() - s->elapsed_ns;
  w->counts.cpu_ns += cpu > replay.clock_ns ? cpu - replay.clock_ns : 0;
  w->counts.elapsed_ns += elapsed;
  w->counts.segments++;
}

static void announce(worker_t *w, uint64_t done, stretch_t *s) {
  atomic_store_explicit(&w->done, done, memory_order_release);
  if (done >= atomic_load_explicit(&w->awaited, memory_order_relaxed)) {
    replay_stop_clock(w, s);
    replay_wake(w);
    replay_start_clock(s);
  }
}

static void run_batch(worker_t *w) {
  size_t count = (size_t)w->in_batch, stride = replay.options->paced ? 1 : REPLAY_STRIDE;
  uint64_t done = atomic_load_explicit(&w->done, memory_order_relaxed);
  stretch_t s;
  replay_start_clock(&s);
  for (size_t i = 0; i < count;) {
    const trace_operation_t *o = &w->batch[i];
    if (o->time_ns > atomic_load_explicit(&w->time_ns, memory_order_relaxed)) {
      atomic_store_explicit(&w->time_ns, o->time_ns, memory_order_relaxed);
      replay_keep_order(w, o->time_ns, &s);
    }
    if (o->kind == TRACE_WAIT) {
      replay_wait_for(w, o, &s);
      i++;
    } else {
      size_t left = count - i;
      i += replay_run(w, o, left < stride ? left : stride);
    }
    announce(w, done + i, &s);
  }
  replay_stop_clock(w, &s);
  w->counts.operations += count;
}

static void measure_loop(worker_t *w) {
  uint64_t begin = replay_clock_of(CLOCK_THREAD_CPUTIME_ID);
  replay_run_empty(w, w->batch, (size_t)w->in_batch);
  uint64_t cpu = replay_clock_of(CLOCK_THREAD_CPUTIME_ID) - begin;
  w->counts.empty_ns += cpu > replay.clock_ns ? cpu - replay.clock_ns : 0;
  w->counts.empty_operations += (uint64_t)w->in_batch;
}

void *replay_worker(void *argument) {
  worker_t *w = argument;
  for (unsigned batch = 0; w->in_batch > 0; batch++) {
    if (batch % EMPTY_EVERY == 0) {
      measure_loop(w);
    }
    run_batch(w);
    replay_look_after(w);
    if (!replay_decode(w)) {
      break;
    }
  }
  atomic_store(&w->state, WORKER_ENDED);
  replay_wake(w);
  replay_ring();
  return NULL;
}
