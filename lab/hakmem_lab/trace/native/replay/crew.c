// The crew starts workers when their time has come, samples the memory, and detects cycles of waits.
//
// The first worker is the process's main thread. Allocators may serve it differently from other threads: glibc does so
// from the heap, and without locks while there is no other thread. So the crew is a thread only if there are several
// workers. A single worker does the crew's work between its batches, and a timer stops an endless batch.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "replay.h"

#define STACK_BYTES (512u << 10)
#define STACK_GUESS_BYTES (16u << 10) // assumed resident bytes of a worker's stack; measured when it ends
#define LOOK_NS 1000000
#define TIMER_US 20000 // processor time
#define MOST_AT_ONCE 256u
#define CIRCLE_LOOKS 20u // successive looks without any progress that prove a cycle

#define BUDGET_LOOKS 64u
#define BUDGET_NS 5000000000u // processor time that any replay may take
#define BUDGET_OF_OPERATION_NS 50000u
#define BUDGET_OF_TIME 20u // × (the trace's time so far × the living workers), the most that the program can have used
#define BUDGET_OF_KIB_NS 2000u

static uint32_t *living; // numbers of the workers that have begun and are not joined yet
static uint32_t living_count;
static uint64_t done_by_dead;

static void *must_map(void *mapping, const char *what) {
  if (mapping == NULL) {
    replay_fail(REPLAY_FAILED, "no memory for %s: %s", what, strerror(errno));
  }
  return mapping;
}

// Opens the next worker's stream, so that its start time is known.
static void prepare(uint32_t number) {
  worker_t *w = &replay.workers[number];
  w->number = number;
  w->stream = trace_stream_open(replay.trace, replay.process, number);
  if (w->stream == NULL) {
    replay_fail(REPLAY_FAILED, "thread %u cannot be read: %s", number, strerror(errno));
  }
  w->batch = must_map(replay_reserve(REPLAY_BATCH * sizeof(trace_operation_t)), "a batch of operations");
  if (replay_decode(w)) {
    uint32_t first = 0;
    while (first + 1 < w->in_batch && w->batch[first].kind == TRACE_WAIT && w->batch[first].time_ns == 0) {
      first++;
    }
    atomic_store_explicit(&w->time_ns, w->batch[first].time_ns, memory_order_relaxed);
  }
  atomic_store_explicit(&replay.next_start_ns, w->time_ns, memory_order_release);
}

// Whether a worker may begin: a thread's operations begin with waits for earlier operations and ended threads.
static bool has_its_turn(const worker_t *w) {
  for (long i = 0; i < w->in_batch && w->batch[i].kind == TRACE_WAIT; i++) {
    if (atomic_load_explicit(&replay.workers[w->batch[i].other].done, memory_order_acquire) < w->batch[i].size) {
      return false;
    }
  }
  return true;
}

static pthread_t begin_thread(char *stack, void *(*run)(void *), void *argument) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, STACK_BYTES);
  int error = pthread_create(&thread, &attributes, run, argument);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    replay_fail(REPLAY_FAILED, "a thread cannot be started: %s", strerror(error));
  }
  return thread;
}

static char *new_stack(void) {
  replay_count(STACK_GUESS_BYTES);
  return must_map(replay_reserve(STACK_BYTES), "a stack");
}

static void start(uint32_t number) {
  worker_t *w = &replay.workers[number];
  atomic_store_explicit(&w->state, WORKER_RUNNING, memory_order_release);
  atomic_store_explicit(&replay.started, number + 1, memory_order_release);
  if (number > 0) {
    w->stack = new_stack();
    w->thread = (uint64_t)begin_thread(w->stack, replay_worker, w);
  }
  living[living_count++] = number;
  atomic_store_explicit(&replay.living, living_count, memory_order_relaxed);
  if (number + 1 < replay.count) {
    prepare(number + 1);
  } else {
    atomic_store_explicit(&replay.next_start_ns, UINT64_MAX, memory_order_release);
  }
}

static void finish_thread(pthread_t thread, char *stack) {
  pthread_join(thread, NULL);
  size_t resident = replay_resident_bytes(stack, STACK_BYTES);
  replay_count(resident - STACK_GUESS_BYTES);
  replay_unmap(stack, STACK_BYTES, resident);
}

static void finish(worker_t *w) {
  if (w->number > 0) {
    finish_thread((pthread_t)w->thread, w->stack);
  }
  replay_unmap(w->batch, REPLAY_BATCH * sizeof(trace_operation_t), w->own_bytes);
  trace_stream_close(w->stream);
  done_by_dead += atomic_load_explicit(&w->done, memory_order_relaxed);
}

typedef struct {
  uint32_t running, ahead, waiting; // ahead: too early for the others, or for the start of the next thread
  uint64_t done, time_ns;           // sum of all workers; least of those that do not wait, and of the next start
} crew_t;

// Whether the awaited operation is done already, and the worker has only not noticed it yet.
static bool goes_on(const worker_t *w) {
  uint32_t other = atomic_load(&w->waits_for);
  return atomic_load(&replay.workers[other].done) >= atomic_load(&w->waits_count) ||
         atomic_load(&replay.workers[other].state) == WORKER_ENDED;
}

static void look_at(crew_t *crew, const worker_t *w) {
  uint32_t state = atomic_load_explicit(&w->state, memory_order_acquire);
  crew->done += atomic_load_explicit(&w->done, memory_order_relaxed);
  bool waits = state == WORKER_WAITING && !goes_on(w);
  crew->waiting += waits;
  crew->ahead += state == WORKER_AHEAD;
  crew->running += state == WORKER_RUNNING || (state == WORKER_WAITING && !waits);
  if (state == WORKER_RUNNING || state == WORKER_AHEAD) {
    uint64_t time = atomic_load_explicit(&w->time_ns, memory_order_relaxed);
    crew->time_ns = time < crew->time_ns ? time : crew->time_ns;
  }
}

static crew_t look(void) {
  crew_t crew = {.time_ns = atomic_load(&replay.next_start_ns)};
  uint32_t kept = 0;
  for (uint32_t i = 0; i < living_count; i++) {
    worker_t *w = &replay.workers[living[i]];
    if (atomic_load_explicit(&w->state, memory_order_acquire) == WORKER_ENDED) {
      finish(w);
    } else {
      living[kept++] = living[i];
      look_at(&crew, w);
    }
  }
  living_count = kept;
  crew.done += done_by_dead;
  atomic_store_explicit(&replay.living, living_count, memory_order_relaxed);
  atomic_store_explicit(&replay.slowest_ns, crew.time_ns, memory_order_relaxed);
  return crew;
}

// Fails if all workers wait for operations of other workers that are not done, without progress for CIRCLE_LOOKS looks.
static void fail_if_circle(const crew_t *crew) {
  static uint64_t before;
  static unsigned looks;
  bool still = crew->running + crew->ahead == 0 && crew->waiting > 0 && crew->done == before;
  looks = still ? looks + 1 : 0;
  before = crew->done;
  if (looks < CIRCLE_LOOKS) {
    return;
  }
  const worker_t *w = &replay.workers[living[0]];
  replay_fail(REPLAY_BAD_INPUT, "damaged: all threads wait for each other, thread %u for operation %llu of thread %u",
              w->number, (unsigned long long)atomic_load(&w->waits_count), atomic_load(&w->waits_for));
}

// Fails if the replay takes far longer than the program can have taken: in a damaged trace, a few operations can ask
// for any amount of work.
static void fail_if_endless(uint64_t done, uint64_t now_ns) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  double used_ns = (double)replay_clock_of(CLOCK_PROCESS_CPUTIME_ID);
  double budget = BUDGET_NS + (double)now_ns * BUDGET_OF_TIME * living_count + (double)done * BUDGET_OF_OPERATION_NS +
                  (double)used.ru_maxrss * BUDGET_OF_KIB_NS;
  if (used_ns > budget) {
    replay_fail(REPLAY_FAILED,
                "it takes far longer than the program can have taken, %.0f s of processor time so far: its touched "
                "blocks are large and many; --touch none leaves that out",
                used_ns / 1e9);
  }
}

// Whether the next worker must start. No worker passes the start time of the next thread. Since times are only roughly
// known, the next one also starts if all others are stopped by this, even if it then has to wait for one of them.
static bool due(uint32_t next, const crew_t *crew, uint64_t now_ns) {
  const worker_t *w = &replay.workers[next];
  if (crew->running == 0 || atomic_load(&replay.wanted) > next) {
    return true;
  }
  return now_ns >= atomic_load_explicit(&w->time_ns, memory_order_relaxed) && has_its_turn(w);
}

static void await_bell(uint32_t seen) {
  struct timespec most = {0, LOOK_NS};
  syscall(SYS_futex, &replay.bell, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
}

// Reserves the slots of all threads at once, since a damaged trace may name blocks of a thread that has not begun.
static void reserve_slots(void) {
  size_t all = 0;
  for (uint32_t i = 0; i < replay.count; i++) {
    all += trace_thread(replay.trace, replay.process, i)->slots;
  }
  _Atomic(void *) *slots = must_map(replay_reserve((all + 1) * sizeof(void *)), "tables of blocks");
  _Atomic(replay_mark_t) *marks = NULL;
  if (replay.stacks != NULL || replay.groups != NULL) {
    marks = must_map(replay_reserve((all + 1) * sizeof *marks), "the stacks of blocks");
  }
  for (uint32_t i = 0; i < replay.count; i++) {
    replay.workers[i].slots = slots;
    replay.workers[i].marks = marks;
    marks += marks == NULL ? 0 : trace_thread(replay.trace, replay.process, i)->slots;
    slots += trace_thread(replay.trace, replay.process, i)->slots;
  }
}

static void *lead(void *unused) {
  uint64_t now = 0; // the trace's time
  for (unsigned looks = 0;; looks++) {
    uint32_t seen = atomic_load_explicit(&replay.bell, memory_order_acquire);
    uint32_t started = atomic_load(&replay.started);
    crew_t crew = look();
    now = crew.time_ns != UINT64_MAX && crew.time_ns > now ? crew.time_ns : now;
    replay_sample(now);
    if (started < replay.count) {
      if (due(started, &crew, now)) {
        // Starts several needed workers at once, since every look examines all workers.
        uint32_t wanted = atomic_load(&replay.wanted), until = started + MOST_AT_ONCE;
        do {
          start(started++);
        } while (started < wanted && started < until && started < replay.count);
        continue;
      }
    } else if (living_count == 0) {
      return unused;
    }
    fail_if_circle(&crew);
    if (looks % BUDGET_LOOKS == 0) {
      fail_if_endless(crew.done, now);
    }
    await_bell(seen);
  }
}

static void on_timer(int signal) {
  (void)signal;
  int error = errno;
  replay_check_limit();
  fail_if_endless(atomic_load(&replay.workers[0].done), atomic_load(&replay.workers[0].time_ns));
  errno = error;
}

static void set_timer(suseconds_t us) {
  struct itimerval every = {{0, us}, {0, us}};
  sigaction(SIGPROF, &(struct sigaction){.sa_handler = on_timer, .sa_flags = SA_RESTART}, NULL);
  setitimer(ITIMER_PROF, &every, NULL);
}

void replay_look_after(const worker_t *w) {
  if (replay.count == 1) {
    replay_sample(atomic_load_explicit(&w->time_ns, memory_order_relaxed));
  }
}

void replay_crew(uint32_t process) {
  replay.process = process;
  reserve_slots();
  living = must_map(replay_map(replay.count * sizeof *living), "the threads");
  prepare(0);
  start(0);
  worker_t *first = &replay.workers[0];
  if (replay.count == 1) {
    replay_look_after(first); // the first sample, so that earlier memory does not count as a peak
    set_timer(TIMER_US);
    replay_worker(first);
    set_timer(0);
    replay_look_after(first);
    finish(first);
    return;
  }
  char *stack = new_stack();
  pthread_t leader = begin_thread(stack, lead, NULL);
  replay_worker(first);
  finish_thread(leader, stack);
}
