/* Duty: which thread makes the next step, so that of all runs that differ only in the order of neighbouring independent
 * steps one is made: dynamic partial order reduction with source sets (Abdulla, Aronis, Jonsson, Sagonas 2014) and
 * sleep sets (Godefroid 1996). Without reduction every order is made; selftest.c compares the two.
 * Data: the steps of the present run, and at each of them what is left to try. Outlives the runs. */
#ifndef HAK_TEST_ORDERS_H
#define HAK_TEST_ORDERS_H

#include "explore.h"

typedef uint32_t ThreadSet;

static inline ThreadSet set_of(int thread) {
  return 1U << thread;
}

typedef struct Step {
  StepKind kind;
  const void *address;
} Step;

/* What each thread would do next, and who is in the way of whom. */
typedef struct Situation {
  Step pending[EXPLORE_THREADS];
  ThreadSet alive, enabled; /* of those alive: not waiting for a lock */
  int running;              /* preferred, as it costs no switch; or EXPLORE_NOBODY */
} Situation;

/* Once, and for every scenario. */
void orders_start(void);
void orders_forget(bool all_orders);

/* A run begins again. */
void orders_rewind(void);
/* The thread to make its step. EXPLORE_NOBODY: nothing new can follow. Somebody is enabled. */
int orders_choose(const Situation *situation);
/* The step that was chosen last ended the run for everybody. */
void orders_run_ended(void);
/* False: everything was tried. */
bool orders_next(void);

size_t orders_steps(void);
Step orders_step(size_t index, int *thread);

#endif
