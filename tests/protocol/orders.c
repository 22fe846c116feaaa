#include "orders.h"

#include <string.h>

#include "check.h"

enum { STEPS_MAX = 2000 };

typedef struct Clock {
  uint32_t steps[EXPLORE_THREADS]; /* for each thread: index of its last step that is included, plus one */
} Clock;

/* A state, the thread that was chosen in it, and the step that it made. The sets contain threads that could go on from
 * there. */
typedef struct Frame {
  Step pending[EXPLORE_THREADS];
  ThreadSet enabled, sleeping, done, wanted, ended_run;
  int chosen;
  Clock clock; /* the steps that happen before this one in every equivalent run */
} Frame;

typedef struct Orders {
  Frame frames[STEPS_MAX];
  size_t count, position; /* position: steps made in this run */
  bool all;
} Orders;

static Orders *x;

static bool writes(Step step) {
  return step.kind != STEP_READ;
}

static bool is_dependent(Step a, Step b) {
  return a.kind == STEP_FORK || b.kind == STEP_FORK || (a.address == b.address && (writes(a) || writes(b)));
}

/* Whether both orders of the two steps are possible. The thread that unlocks holds the lock, so no other thread can be
 * about to take it. */
static bool can_swap(Step a, Step b) {
  bool locks = a.kind == STEP_LOCK || a.kind == STEP_UNLOCK || b.kind == STEP_LOCK || b.kind == STEP_UNLOCK;
  return is_dependent(a, b) &&
         (a.kind == STEP_FORK || b.kind == STEP_FORK || !locks || (a.kind == STEP_LOCK && b.kind == STEP_LOCK));
}

static void clock_join(Clock *clock, const Clock *other) {
  for (int t = 0; t < EXPLORE_THREADS; t++) {
    clock->steps[t] = clock->steps[t] > other->steps[t] ? clock->steps[t] : other->steps[t];
  }
}

static Step step_of(const Frame *frame) {
  return frame->pending[frame->chosen];
}

static Clock clock_of(int thread, size_t before) {
  while (before-- > 0) {
    if (x->frames[before].chosen == thread) {
      return x->frames[before].clock;
    }
  }
  return (Clock){{0}};
}

static bool happens_before(size_t earlier, const Clock *clock) {
  return earlier < clock->steps[x->frames[earlier].chosen];
}

/* Among the steps behind `first` that do not depend on it, including the pending one: the threads whose step could come
 * first. */
static ThreadSet who_could_begin(size_t first, size_t position, int thread, Step step) {
  ThreadSet met = 0, begin = 0;
  bool pending_begins = true;
  for (size_t k = first + 1; k < position; k++) {
    const Frame *frame = &x->frames[k];
    if (happens_before(first, &frame->clock)) {
      continue;
    }
    pending_begins &= frame->chosen != thread && !is_dependent(step_of(frame), step);
    if (!(met & set_of(frame->chosen))) {
      met |= set_of(frame->chosen);
      bool begins = true;
      for (size_t j = first + 1; j < k && begins; j++) {
        begins = happens_before(first, &x->frames[j].clock) || !happens_before(j, &frame->clock);
      }
      begin |= begins ? set_of(frame->chosen) : 0;
    }
  }
  return begin | (pending_begins ? set_of(thread) : 0);
}

/* Finds every earlier step of another thread that could also come after the pending one. From there, some run must
 * begin with a step that leads to this order. */
static void want_reversals(size_t position, int thread, Step step) {
  Clock seen = clock_of(thread, position);
  for (size_t i = position; i-- > 0;) {
    Frame *frame = &x->frames[i];
    if (frame->chosen == thread || !can_swap(step_of(frame), step) || happens_before(i, &seen)) {
      continue;
    }
    ThreadSet begin = who_could_begin(i, position, thread, step) & frame->enabled;
    if (!begin) {
      frame->wanted |= frame->enabled;
    } else if (!(begin & frame->wanted)) {
      frame->wanted |= begin & set_of(thread) ? set_of(thread) : begin & -begin;
    }
  }
}

/* Threads whose step from the frame was tried already, and does not depend on the step made since. */
static ThreadSet still_sleeping(const Frame *frame) {
  ThreadSet sleeping = 0, tried = (frame->sleeping | frame->done) & ~set_of(frame->chosen) & ~frame->ended_run;
  for (int t = 0; t < EXPLORE_THREADS; t++) {
    if ((tried & set_of(t)) && !is_dependent(frame->pending[t], step_of(frame))) {
      sleeping |= set_of(t);
    }
  }
  return sleeping;
}

static void open_frame(Frame *frame, const Situation *now) {
  memset(frame, 0, sizeof *frame);
  memcpy(frame->pending, now->pending, sizeof frame->pending);
  frame->enabled = now->enabled;
  for (int t = 0; t < EXPLORE_THREADS && !x->all; t++) {
    if (now->alive & set_of(t)) {
      want_reversals(x->position, t, frame->pending[t]);
    }
  }
  frame->sleeping = x->position > 0 && !x->all ? still_sleeping(frame - 1) : 0;
  ThreadSet choice = frame->enabled & ~frame->sleeping;
  bool stay = now->running != EXPLORE_NOBODY && (choice & set_of(now->running));
  frame->chosen = stay ? now->running : choice ? __builtin_ctz(choice) : EXPLORE_NOBODY;
  frame->wanted = x->all ? frame->enabled : choice ? set_of(frame->chosen) : 0;
}

/* The run ends with this step, so the other threads' next steps must be tried before it. */
static void ends_run(Frame *frame) {
  frame->wanted |= frame->enabled;
  frame->ended_run |= set_of(frame->chosen);
}

static void close_frame(Frame *frame) {
  Step step = step_of(frame);
  frame->clock = clock_of(frame->chosen, x->position);
  for (size_t i = 0; i < x->position; i++) {
    if (is_dependent(step_of(&x->frames[i]), step)) {
      clock_join(&frame->clock, &x->frames[i].clock);
    }
  }
  frame->clock.steps[frame->chosen] = (uint32_t)x->position + 1;
  if (step.kind == STEP_FORK) {
    ends_run(frame);
  }
}

int orders_choose(const Situation *situation) {
  Frame *frame = &x->frames[x->position];
  if (x->position == x->count) {
    if (x->count + 1 == STEPS_MAX) {
      explore_fail("a run of more than %d steps", STEPS_MAX);
    }
    open_frame(frame, situation);
    if (frame->chosen == EXPLORE_NOBODY) {
      return EXPLORE_NOBODY;
    }
    x->count++;
  }
  if (x->position + 1 == x->count) { /* the frame is new, or its choice is */
    close_frame(frame);
  }
  Step now = situation->pending[frame->chosen];
  CHECK(now.kind == step_of(frame).kind && now.address == step_of(frame).address); /* runs repeat exactly */
  x->position++;
  return frame->chosen;
}

void orders_run_ended(void) {
  ends_run(&x->frames[x->position - 1]);
}

bool orders_next(void) {
  while (x->count > 0) {
    Frame *frame = &x->frames[x->count - 1];
    frame->done |= set_of(frame->chosen);
    ThreadSet left = frame->wanted & ~frame->done & ~frame->sleeping;
    if (left) {
      frame->chosen = __builtin_ctz(left);
      return true;
    }
    x->count--;
  }
  return false;
}

void orders_start(void) {
  x = explore_memory(sizeof *x);
}

void orders_forget(bool all_orders) {
  x->all = all_orders;
  x->count = 0;
}

void orders_rewind(void) {
  x->position = 0;
}

size_t orders_steps(void) {
  return x->position;
}

Step orders_step(size_t index, int *thread) {
  *thread = x->frames[index].chosen;
  return step_of(&x->frames[index]);
}
