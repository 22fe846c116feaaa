/* Duty: choose the thread that makes the next step. Of all runs that differ only in the order of neighbouring
 * independent steps, one is enough: dynamic partial order reduction with source sets (Abdulla, Aronis, Jonsson, Sagonas
 * 2014) and sleep sets (Godefroid 1996). Without reduction, every order is run; selftest.c compares the two.
 * Data: the steps of the present run, and for each of them the threads still to try. It outlives the runs. */
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

/* The next step of each thread, and the threads that can make theirs. */
typedef struct Situation {
  Step pending[EXPLORE_THREADS];
  ThreadSet alive, enabled; /* enabled: alive, and not waiting for a lock */
  int running;              /* preferred, as it costs no switch; or EXPLORE_NOBODY */
} Situation;

/* Once, and for every scenario. */
void orders_start(void);
void orders_forget(bool all_orders);

/* A run begins again. */
void orders_rewind(void);
/* The thread to make its step. EXPLORE_NOBODY: no new order can follow. At least one thread must be enabled. */
int orders_choose(const Situation *situation);
/* The last step ended the run for all threads. */
void orders_run_ended(void);
/* False: everything was tried. */
bool orders_next(void);

size_t orders_steps(void);
Step orders_step(size_t index, int *thread);

#endif
