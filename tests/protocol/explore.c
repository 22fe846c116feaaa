#include "explore.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "check.h"
#include "orders.h"
#include "races.h"

enum { STACK_BYTES = 64 << 10, ALONE_MAX = 1000000, SETUP_OWNER = EXPLORE_THREADS + 1 };

typedef struct Coroutine {
  ucontext_t context;
  char *stack;
  Step pending;
  uint32_t locks; /* number of locks that it holds */
  bool alive, starting;
} Coroutine;

typedef struct Explorer {
  const Scenario *scenario;
  ucontext_t home;
  Coroutine threads[EXPLORE_THREADS];
  int alone; /* no other thread runs meanwhile: in setup, finish and the child of a fork */
  int running;
  bool child, stopped, cut_short;
  Explored explored;
  char *saved_data;
} Explorer;

static Explorer *x;
void (*explore_describe)(const void *address, char *text, size_t capacity);

extern char __data_start[], _end[];

void *explore_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return memory;
}

static bool is_enabled(const Coroutine *c) {
  return c->alive && (c->pending.kind != STEP_LOCK || ((const ModelLock *)c->pending.address)->owner == 0);
}

/* The thread that makes the next step; EXPLORE_NOBODY: the run is over. */
static int choose(void) {
  Situation now = {.running = x->running};
  for (int t = 0; t < EXPLORE_THREADS; t++) {
    now.pending[t] = x->threads[t].pending;
    now.alive |= x->threads[t].alive ? set_of(t) : 0;
    now.enabled |= is_enabled(&x->threads[t]) ? set_of(t) : 0;
  }
  if (!now.alive) {
    return EXPLORE_NOBODY;
  }
  if (!now.enabled) {
    explore_fail("every thread waits for a lock");
  }
  int next = orders_choose(&now);
  x->cut_short = next == EXPLORE_NOBODY;
  return next;
}

static void switch_to(int next, ucontext_t *from) {
  if (next == x->running && next != EXPLORE_NOBODY) {
    return;
  }
  x->running = next;
  ucontext_t *to = next == EXPLORE_NOBODY ? &x->home : &x->threads[next].context;
  CHECK(swapcontext(from, to) == 0);
}

/* A thread that begins runs up to its first step, and waits there for the others to begin. */
static void next_thread(Coroutine *me) {
  if (me->starting) {
    me->starting = false;
    switch_to(EXPLORE_NOBODY, &me->context);
  } else {
    switch_to(x->child ? EXPLORE_NOBODY : choose(), &me->context);
  }
}

void explore_point(StepKind kind, const void *address) {
  if (x->running == EXPLORE_NOBODY || x->child) {
    if (x->alone++ == ALONE_MAX) {
      explore_fail("%d steps of one thread alone", ALONE_MAX);
    }
    return;
  }
  Coroutine *me = &x->threads[x->running];
  me->pending = (Step){kind, address};
  next_thread(me);
}

int explore_thread(void) {
  return x->running;
}

bool explore_is_child(void) {
  return x->child;
}

void explore_lock(ModelLock *lock) {
  explore_point(STEP_LOCK, lock);
  if (lock->owner != 0) {
    explore_fail("waits for a lock that nobody will release");
  }
  if (x->running == EXPLORE_NOBODY) {
    lock->owner = SETUP_OWNER;
  } else {
    lock->owner = x->running + 1;
    x->threads[x->running].locks++;
  }
  races_acquire(lock);
}

void explore_unlock(ModelLock *lock) {
  explore_point(STEP_UNLOCK, lock);
  if (lock->owner != (x->running == EXPLORE_NOBODY ? SETUP_OWNER : x->running + 1)) {
    explore_fail("releases a lock that it does not hold");
  }
  if (x->running != EXPLORE_NOBODY) {
    x->threads[x->running].locks--;
  }
  races_release(lock, false);
  lock->owner = 0;
}

bool explore_holds_lock(void) {
  return x->running != EXPLORE_NOBODY && x->threads[x->running].locks > 0;
}

bool explore_is_crime(void) {
  return x->scenario->crime;
}

void explore_fork(void) {
  explore_point(STEP_FORK, NULL);
  for (int t = 0; t < EXPLORE_THREADS; t++) {
    x->threads[t].alive &= t == x->running;
  }
  x->threads[x->running].locks = 0; /* the child initialises all locks */
  x->child = true;
}

_Noreturn static void end_run(void) {
  x->running = EXPLORE_NOBODY;
  setcontext(&x->home);
  abort();
}

_Noreturn void explore_stop(void) {
  if (x->running != EXPLORE_NOBODY && !x->child) {
    orders_run_ended();
  }
  x->stopped = true;
  end_run();
}

_Noreturn void explore_fail(const char *format, ...) {
  static const char *const names[] = {"reads", "writes", "locks", "unlocks", "forks"};
  char text[80] = "";
  va_list arguments;
  fprintf(stderr, "%s: run %llu: ", x->scenario->name, (unsigned long long)x->explored.runs);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments); /* NOLINT(clang-analyzer-valist.Uninitialized) */
  va_end(arguments);
  fprintf(stderr, "\nthread %d after these steps:\n", x->running);
  for (size_t i = 0; i < orders_steps(); i++) {
    int thread;
    Step step = orders_step(i, &thread);
    explore_describe(step.address, text, sizeof text);
    fprintf(stderr, "%4zu  thread %d %s %s\n", i, thread, names[step.kind], text);
  }
  _Exit(1);
}

static void thread_main(void) {
  x->scenario->threads[x->running]();
  Coroutine *me = &x->threads[x->running];
  me->alive = false;
  next_thread(me);
}

static void start_thread(int thread) {
  Coroutine *c = &x->threads[thread];
  c->alive = c->starting = x->scenario->threads[thread] != NULL;
  c->locks = 0;
  if (!c->alive) {
    return;
  }
  CHECK(getcontext(&c->context) == 0);
  c->context.uc_stack.ss_sp = c->stack;
  c->context.uc_stack.ss_size = STACK_BYTES;
  c->context.uc_link = NULL;
  makecontext(&c->context, thread_main, 0);
  switch_to(thread, &x->home);
}

static void run_once(void) {
  memcpy(__data_start, x->saved_data, (size_t)(_end - __data_start));
  orders_rewind();
  x->alone = 0;
  x->child = x->stopped = x->cut_short = false;
  x->running = EXPLORE_NOBODY;
  races_watch(false);
  x->scenario->setup();
  races_watch(!x->scenario->crime);
  for (int t = 0; t < EXPLORE_THREADS; t++) {
    start_thread(t);
  }
  switch_to(choose(), &x->home);
  races_watch(false);
  if (!x->stopped && !x->cut_short) {
    x->scenario->finish();
  }
  x->explored.runs++;
  x->explored.stopped += x->stopped;
  x->explored.cut_short += x->cut_short;
  x->explored.steps += orders_steps();
}

Explored explore(const Scenario *scenario) {
  if (!x) {
    x = explore_memory(sizeof *x);
    for (int t = 0; t < EXPLORE_THREADS; t++) {
      x->threads[t].stack = explore_memory(STACK_BYTES);
    }
    races_start();
    orders_start();
    x->saved_data = explore_memory((size_t)(_end - __data_start));
    memcpy(x->saved_data, __data_start, (size_t)(_end - __data_start));
  }
  x->scenario = scenario;
  x->explored = (Explored){0};
  orders_forget(scenario->all_orders);
  do {
    run_once();
  } while (orders_next());
  return x->explored;
}
