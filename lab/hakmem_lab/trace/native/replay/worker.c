// A thread of the trace: decodes a batch, then runs it, and lets others know how far it is.
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "replay.h"

#define SPINS 200u
#define YIELDS 50u
#define REST_NS 50000u
#define CROWD 64u // as many threads rest at once, and the longer the more there are
#define PAGE 4096u
#define LARGE_PLACES 512u // large blocks of a batch that are remembered
#define EMPTY_EVERY 16u   // batches
#define MOST_REST_NS 100000000u

replay_t replay;

static uint64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t replay_clock_ns(void) {
  return read_clock(CLOCK_MONOTONIC);
}

uint64_t replay_clock_cost_ns(void) {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 200; i++) {
    uint64_t first = read_clock(CLOCK_THREAD_CPUTIME_ID);
    uint64_t second = read_clock(CLOCK_THREAD_CPUTIME_ID);
    least = second - first < least ? second - first : least;
  }
  return least;
}

void replay_ring(void) {
  atomic_fetch_add_explicit(&replay.bell, 1, memory_order_release);
  syscall(SYS_futex, &replay.bell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

// Longer and longer, since there may be more threads than processors, or thousands of them.
static void rest(unsigned round) {
  uint32_t threads = atomic_load_explicit(&replay.started, memory_order_relaxed);
  if (round < SPINS && threads < CROWD) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  } else if (round < SPINS + YIELDS && threads < CROWD) {
    sched_yield();
  } else {
    nanosleep(&(struct timespec){0, REST_NS * (1 + threads / CROWD)}, NULL);
  }
}

// How much of a large block was touched is told when it was looked at, which may be when it is freed; it is touched
// where it was allocated, if that is in the same batch: memory must be there as long as it was.
static void touch_early(worker_t *w, uint16_t *large, trace_operation_t *o, long index) {
  uint16_t *place = &large[o->slot % LARGE_PLACES];
  bool sized = o->kind == TRACE_MALLOC || o->kind == TRACE_CALLOC || o->kind == TRACE_REALLOC;
  if (sized) {
    o->other = 0; // pages that are touched
    if (o->size >= TRACE_TOUCH_BYTES) {
      *place = (uint16_t)(index + 1);
    }
  } else if (o->kind == TRACE_TOUCHED && o->other == w->number && *place != 0) {
    trace_operation_t *allocation = &w->batch[*place - 1];
    if (allocation->slot == o->slot && o->size <= allocation->size) {
      allocation->other = (uint32_t)((o->size + PAGE - 1) / PAGE);
      o->kind = TRACE_NOTHING;
    }
  }
}

// The reader has checked every number: what is left to see is whether a place holds a block, and rings of waits.
bool replay_decode(worker_t *w) {
  uint16_t large[LARGE_PLACES] = {0};
  w->in_batch = trace_stream_next(w->stream, w->batch, REPLAY_BATCH);
  if (w->in_batch < 0) {
    replay_fail(REPLAY_BAD_INPUT, "%s", trace_stream_error(w->stream));
  }
  uint64_t highest = w->highest_slot, slots_of_page = PAGE / sizeof(void *);
  for (long i = 0; i < w->in_batch; i++) {
    trace_operation_t *o = &w->batch[i];
    if (o->kind <= TRACE_ALIGNED && o->slot > highest) {
      highest = o->slot;
    }
    touch_early(w, large, o, i);
  }
  replay_count((highest / slots_of_page - w->highest_slot / slots_of_page) * PAGE);
  w->highest_slot = highest;
  return w->in_batch > 0;
}

typedef struct {
  uint64_t cpu_ns, elapsed_ns;
} stretch_t;

static void start_clock(stretch_t *s) {
  s->elapsed_ns = replay_clock_ns();
  s->cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static void stop_clock(worker_t *w, const stretch_t *s) {
  uint64_t cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - s->cpu_ns;
  uint64_t elapsed = replay_clock_ns() - s->elapsed_ns;
  w->counts.cpu_ns += cpu > replay.clock_ns ? cpu - replay.clock_ns : 0;
  w->counts.elapsed_ns += elapsed;
  w->counts.segments++;
}

static void want(uint32_t number) {
  uint32_t wanted = atomic_load(&replay.wanted);
  while (wanted <= number && !atomic_compare_exchange_weak(&replay.wanted, &wanted, number + 1)) {
    continue;
  }
  replay_ring();
}

// True once that operation has been done, or never will be.
static bool reached(worker_t *w, const worker_t *other, uint64_t count) {
  uint32_t state = atomic_load_explicit(&other->state, memory_order_acquire);
  if (atomic_load_explicit(&other->done, memory_order_acquire) >= count) {
    return true;
  }
  if (state != WORKER_ENDED) {
    return false;
  }
  if (replay.complete) {
    replay_fail(REPLAY_BAD_INPUT, "damaged: thread %u waits for operation %llu of thread %u, which ends before it",
                w->number, (unsigned long long)count, other->number);
  }
  w->counts.unordered++;
  return true;
}

static void wait_for(worker_t *w, const trace_operation_t *o, stretch_t *s) {
  worker_t *other = &replay.workers[o->other];
  if (atomic_load_explicit(&other->done, memory_order_acquire) >= o->size) {
    return;
  }
  stop_clock(w, s);
  atomic_store_explicit(&w->waits_for, o->other, memory_order_relaxed);
  atomic_store_explicit(&w->waits_count, o->size, memory_order_relaxed);
  atomic_store_explicit(&w->state, WORKER_WAITING, memory_order_release);
  if (o->other >= atomic_load(&replay.started)) {
    want(o->other);
  }
  for (unsigned round = 0; !reached(w, other, o->size); round++) {
    rest(round);
  }
  atomic_store_explicit(&w->state, WORKER_RUNNING, memory_order_release);
  start_clock(s);
}

// How far the slowest of the others is; nobody waits for those who themselves wait for an operation.
static uint64_t least_time_of_others(const worker_t *w) {
  uint64_t least = UINT64_MAX;
  uint32_t started = atomic_load_explicit(&replay.started, memory_order_acquire);
  for (uint32_t i = 0; i < started; i++) {
    const worker_t *other = &replay.workers[i];
    uint32_t state = atomic_load_explicit(&other->state, memory_order_relaxed);
    uint64_t time = atomic_load_explicit(&other->time_ns, memory_order_relaxed);
    if (other != w && (state == WORKER_RUNNING || state == WORKER_AHEAD) && time < least) {
      least = time;
    }
  }
  return least;
}

static bool may_go_on(worker_t *w, uint64_t time_ns) {
  uint64_t next = atomic_load_explicit(&replay.next_start_ns, memory_order_acquire);
  if (time_ns > next) {
    replay_ring();
  }
  uint64_t least = least_time_of_others(w);
  uint64_t horizon = least > UINT64_MAX - REPLAY_WINDOW_NS ? UINT64_MAX : least + REPLAY_WINDOW_NS;
  w->horizon_ns = horizon < next ? horizon : next;
  return time_ns <= w->horizon_ns;
}

static void think(uint64_t time_ns) {
  for (;;) {
    uint64_t now = replay_clock_ns() - replay.begin_ns;
    if (now >= time_ns) {
      return;
    }
    uint64_t left = time_ns - now;
    left = left < MOST_REST_NS ? left : MOST_REST_NS;
    nanosleep(&(struct timespec){0, (long)left}, NULL);
  }
}

// Not counted: the others come nearer, by the trace's time, or the time has not come.
static void keep_order(worker_t *w, uint64_t time_ns, stretch_t *s) {
  if (time_ns <= w->horizon_ns && !replay.options->paced) {
    return;
  }
  if (replay.options->paced && replay_clock_ns() - replay.begin_ns < time_ns) {
    stop_clock(w, s);
    think(time_ns);
    start_clock(s);
  }
  if (time_ns <= w->horizon_ns || may_go_on(w, time_ns)) {
    return;
  }
  stop_clock(w, s);
  atomic_store_explicit(&w->state, WORKER_AHEAD, memory_order_release);
  for (unsigned round = 0; !may_go_on(w, time_ns); round++) {
    rest(round);
  }
  atomic_store_explicit(&w->state, WORKER_RUNNING, memory_order_release);
  start_clock(s);
}

static void run_batch(worker_t *w) {
  size_t count = (size_t)w->in_batch, stride = replay.options->paced ? 1 : REPLAY_STRIDE;
  uint64_t done = atomic_load_explicit(&w->done, memory_order_relaxed);
  stretch_t s;
  start_clock(&s);
  for (size_t i = 0; i < count;) {
    const trace_operation_t *o = &w->batch[i];
    if (o->time_ns > atomic_load_explicit(&w->time_ns, memory_order_relaxed)) {
      atomic_store_explicit(&w->time_ns, o->time_ns, memory_order_relaxed);
      keep_order(w, o->time_ns, &s);
    }
    if (o->kind == TRACE_WAIT) {
      wait_for(w, o, &s);
      i++;
    } else {
      size_t left = count - i;
      i += replay_run(w, o, left < stride ? left : stride);
    }
    atomic_store_explicit(&w->done, done + i, memory_order_release);
  }
  stop_clock(w, &s);
  w->counts.operations += count;
}

static void measure_loop(worker_t *w) {
  uint64_t begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
  replay_run_empty(w, w->batch, (size_t)w->in_batch);
  uint64_t cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - begin;
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
    if (!replay_decode(w)) {
      break;
    }
  }
  atomic_store_explicit(&w->state, WORKER_ENDED, memory_order_release);
  replay_ring();
  return NULL;
}
