// Keeps the order of the trace: a worker waits for operations of other workers, and does not run too far ahead of them
// in the trace's time. None of that counts as time of the allocator.
//
// A worker that waits for long sleeps on the other worker's `moved`; `awaited` holds the count from which on it wants
// to be woken. The other worker has no fence between writing `done` and reading `awaited`, since that would cost every
// operation. So it may miss a wake-up in rare cases, which the sleeper's timeout makes up for.
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
#define REST_EACH_NS 20000u // rest for each living thread, if there are at least CROWD
#define SLEEP_NS 1000000u
#define CROWD 64u // threads
#define MOST_REST_NS 100000000u

static void rest_for(uint64_t ns) {
  ns = ns < MOST_REST_NS ? ns : MOST_REST_NS;
  nanosleep(&(struct timespec){0, (long)ns}, NULL);
}

// Rests for increasing times, since there may be more threads than processors, or even thousands.
static void rest(unsigned round) {
  uint32_t threads = atomic_load_explicit(&replay.living, memory_order_relaxed);
  if (round < SPINS && threads < CROWD) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  } else if (round < SPINS + YIELDS && threads < CROWD) {
    sched_yield();
  } else {
    rest_for(threads < CROWD ? REST_NS : (uint64_t)REST_EACH_NS * threads);
  }
}

static void want(uint32_t number) {
  uint32_t wanted = atomic_load(&replay.wanted);
  while (wanted <= number) {
    if (atomic_compare_exchange_weak(&replay.wanted, &wanted, number + 1)) {
      replay_ring();
      return;
    }
  }
}

// Whether this operation is done, or will never be done.
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

static void sleep_until(worker_t *w, worker_t *other, uint64_t count) {
  uint32_t seen = atomic_load(&other->moved);
  uint64_t least = atomic_load(&other->awaited);
  while (least > count && !atomic_compare_exchange_weak(&other->awaited, &least, count)) {
    continue;
  }
  if (atomic_load(&other->done) < count && atomic_load(&other->state) != WORKER_ENDED) {
    uint64_t ns = SLEEP_NS * (1 + atomic_load_explicit(&replay.living, memory_order_relaxed) / CROWD);
    struct timespec most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    atomic_store_explicit(&w->state, WORKER_WAITING, memory_order_release);
    syscall(SYS_futex, &other->moved, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
  }
}

void replay_wake(worker_t *w) {
  atomic_store(&w->awaited, UINT64_MAX);
  atomic_fetch_add(&w->moved, 1);
  syscall(SYS_futex, &w->moved, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void replay_wait_for(worker_t *w, const trace_operation_t *o, stretch_t *s) {
  worker_t *other = &replay.workers[o->other];
  if (atomic_load_explicit(&other->done, memory_order_acquire) >= o->size) {
    return;
  }
  if (replay.count == 1) {
    replay_fail(REPLAY_BAD_INPUT, "damaged: thread %u waits for itself", w->number);
  }
  replay_stop_clock(w, s);
  atomic_store_explicit(&w->waits_for, o->other, memory_order_relaxed);
  atomic_store_explicit(&w->waits_count, o->size, memory_order_relaxed);
  atomic_store_explicit(&w->state, WORKER_WAITING, memory_order_release);
  if (o->other >= atomic_load(&replay.started)) {
    want(o->other);
  }
  for (unsigned round = 0; !reached(w, other, o->size); round++) {
    if (round < SPINS + YIELDS && atomic_load_explicit(&replay.living, memory_order_relaxed) < CROWD) {
      rest(round);
    } else {
      sleep_until(w, other, o->size);
    }
  }
  atomic_store_explicit(&w->state, WORKER_RUNNING, memory_order_release);
  replay_start_clock(s);
}

// Time of the slowest other worker, without those that wait for an operation. With many workers it is the crew's value,
// which may be slightly old.
static uint64_t least_time_of_others(const worker_t *w) {
  uint64_t least = UINT64_MAX;
  uint32_t started = atomic_load_explicit(&replay.started, memory_order_acquire);
  if (started > CROWD) {
    return atomic_load_explicit(&replay.slowest_ns, memory_order_relaxed);
  }
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
  for (uint64_t now; (now = replay_clock_ns() - replay.begin_ns) < time_ns;) {
    rest_for(time_ns - now);
  }
}

void replay_keep_order(worker_t *w, uint64_t time_ns, stretch_t *s) {
  if (time_ns <= w->horizon_ns && !replay.options->paced) {
    return;
  }
  if (replay.options->paced && replay_clock_ns() - replay.begin_ns < time_ns) {
    replay_stop_clock(w, s);
    think(time_ns);
    replay_start_clock(s);
  }
  if (time_ns <= w->horizon_ns || may_go_on(w, time_ns)) {
    return;
  }
  replay_stop_clock(w, s);
  atomic_store_explicit(&w->state, WORKER_AHEAD, memory_order_release);
  for (unsigned round = 0; !may_go_on(w, time_ns); round++) {
    rest(round);
  }
  atomic_store_explicit(&w->state, WORKER_RUNNING, memory_order_release);
  replay_start_clock(s);
}
