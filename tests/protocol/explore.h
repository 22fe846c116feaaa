/* Duty: run a scenario of a few threads in every order that can make a difference, each run from the start.
 * Data: the model threads (coroutines of one real thread) and the orders tried so far. Knows nothing of slabs.
 *
 * A step is one operation on shared state: an atomic operation, a lock operation, or what the scenario declares. Before
 * each step the thread calls explore_point, which decides which thread goes on; orders.h says how. All interleavings of
 * steps are sequentially consistent.
 *
 * The .data and .bss sections of the program are the state of the model: they are restored before every run. Data that
 * must outlive a run is in memory from explore_memory. */
#ifndef HAK_TEST_EXPLORE_H
#define HAK_TEST_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPLORE_THREADS = 4, EXPLORE_NOBODY = -1 };

typedef enum StepKind { STEP_READ, STEP_WRITE, STEP_LOCK, STEP_UNLOCK, STEP_FORK } StepKind;

typedef struct Scenario {
  const char *name;
  void (*setup)(void);
  void (*threads[EXPLORE_THREADS])(void);
  void (*finish)(void); /* called when every thread has ended; in the child of a fork, when the forking thread has */
  bool crime;           /* a thread misuses the heap: a run may end when this is noticed, and data may race */
  bool all_orders;      /* without reduction */
} Scenario;

typedef struct Explored {
  uint64_t runs, cut_short, stopped, steps; /* cut_short: no new order could follow; stopped: by explore_stop */
} Explored;

/* Explores a scenario. If a run fails, ends the process with a message and the steps of the run. */
Explored explore(const Scenario *scenario);

/* The model thread that runs; EXPLORE_NOBODY in setup and finish, which are not interleaved with anything. */
int explore_thread(void);
/* Whether this is the child of a fork, where no other thread runs. */
bool explore_is_child(void);

typedef struct ModelLock {
  int owner; /* 0: free */
} ModelLock;

void explore_point(StepKind kind, const void *address);
void explore_lock(ModelLock *lock);
void explore_unlock(ModelLock *lock);
bool explore_holds_lock(void);
/* From here on, the run is in the child of a fork: the other threads stop wherever they are. */
void explore_fork(void);
bool explore_is_crime(void);
/* End the run here, as a success. */
_Noreturn void explore_stop(void);
_Noreturn void explore_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define EXPECT(condition) ((condition) ? (void)0 : explore_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition))

void *explore_memory(size_t bytes);

/* Supplied by the scenario: names an address in the list of steps. */
extern void (*explore_describe)(const void *address, char *text, size_t capacity);

#endif
