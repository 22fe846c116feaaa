// Reads the threads of a process in parallel, always the thread with the earliest next operation that does not wait. A
// thread is opened at its first turn and closed at its end, so only threads that ran at the same time are open
// together.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "stats.h"

enum { BATCH = 512 };

typedef struct runner {
  const trace_thread_t *known; // NULL: the trace has nothing of this thread
  trace_stream_t *stream;      // NULL: not open
  trace_operation_t *batch;
  size_t at, count;
  uint64_t done;
  uint64_t key;                // time of its next operation
  uint64_t wake_at;            // least count that a waiting thread needs; UINT64_MAX: none waits
  struct runner *waiting;      // heap of threads that wait for this one; the one that needs least is on top
  struct runner *next, *below; // in the heap where it waits: next sibling, first child
  uint64_t needs;              // the count that it waits for
  stats_block_t *blocks;
} runner_t;

typedef struct {
  trace_t *trace;
  uint32_t process;
  runner_t *runners;
  runner_t **heap; // the earliest first
  uint32_t threads, runnable, left;
  stats_block_t *blocks;
  uint64_t slots;
  stats_counts_t *counts;
  stats_thread_t *counted;
  char *error;
  size_t error_bytes;
} run_t;

static void sift_down(run_t *run, uint32_t at) {
  runner_t *moved = run->heap[at];
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= run->runnable) {
      break;
    }
    if (child + 1 < run->runnable && run->heap[child + 1]->key < run->heap[child]->key) {
      child++;
    }
    if (run->heap[child]->key >= moved->key) {
      break;
    }
    run->heap[at] = run->heap[child];
    at = child;
  }
  run->heap[at] = moved;
}

static void push(run_t *run, runner_t *runner) {
  uint32_t at = run->runnable++;
  for (; at > 0 && run->heap[(at - 1) / 2]->key > runner->key; at = (at - 1) / 2) {
    run->heap[at] = run->heap[(at - 1) / 2];
  }
  run->heap[at] = runner;
}

static void drop_first(run_t *run) {
  run->heap[0] = run->heap[--run->runnable];
  if (run->runnable > 0) {
    sift_down(run, 0);
  }
}

// The threads that wait for a thread form a pairing heap, with the one that needs least on top. So a check reads only
// the top, however many wait.
static runner_t *meld(runner_t *one, runner_t *other) {
  if (one == NULL || other == NULL) {
    return one ? one : other;
  }
  if (other->needs < one->needs) {
    runner_t *swapped = one;
    one = other;
    other = swapped;
  }
  other->next = one->below;
  one->below = other;
  return one;
}

static runner_t *without_top(runner_t *top) {
  runner_t *pairs = NULL, *melded = NULL;
  for (runner_t *one = top->below, *rest; one != NULL; one = rest) {
    runner_t *other = one->next;
    rest = other ? other->next : NULL;
    one = meld(one, other);
    one->next = pairs;
    pairs = one;
  }
  for (runner_t *rest; pairs != NULL; pairs = rest) {
    rest = pairs->next;
    melded = meld(melded, pairs);
  }
  return melded;
}

static void wait_for(runner_t *runner, runner_t *awaited, uint64_t needs) {
  runner->needs = needs;
  runner->next = runner->below = NULL;
  awaited->waiting = meld(awaited->waiting, runner);
  awaited->wake_at = awaited->waiting->needs;
}

// Lets the threads continue whose count is reached.
static void wake(run_t *run, runner_t *awaited) {
  while (awaited->waiting != NULL && awaited->waiting->needs <= awaited->done) {
    runner_t *top = awaited->waiting;
    awaited->waiting = without_top(top);
    push(run, top);
  }
  awaited->wake_at = awaited->waiting ? awaited->waiting->needs : UINT64_MAX;
}

static void close_runner(runner_t *runner) {
  if (runner->stream != NULL) {
    trace_stream_close(runner->stream);
    runner->stream = NULL;
  }
  free(runner->batch);
  runner->batch = NULL;
}

static const char *no_memory(const run_t *run, const char *what) {
  snprintf(run->error, run->error_bytes, "no memory for all %s of process %" PRIu32, what, run->process);
  return run->error;
}

// Reads the next batch; runner->count is 0 at the thread's end.
static const char *refill(run_t *run, runner_t *runner) {
  if (runner->stream == NULL) {
    runner->stream = trace_stream_open(run->trace, run->process, runner->known->thread);
    runner->batch = calloc(BATCH, sizeof *runner->batch);
    if (runner->stream == NULL || runner->batch == NULL) {
      return no_memory(run, "threads at once");
    }
  }
  long count = trace_stream_next(runner->stream, runner->batch, BATCH);
  if (count < 0) {
    snprintf(run->error, run->error_bytes, "%s", trace_stream_error(runner->stream));
    return run->error;
  }
  runner->at = 0;
  runner->count = (size_t)count;
  return NULL;
}

// Whether a wait is fulfilled; if not, the thread joins those that wait.
static bool passes(run_t *run, runner_t *runner, const trace_operation_t *operation) {
  runner_t *awaited = &run->runners[operation->other];
  if (awaited->done >= operation->size) {
    return true;
  }
  wait_for(runner, awaited, operation->size);
  return false;
}

static stats_block_t *owner_of(const run_t *run, runner_t *runner, const trace_operation_t *operation) {
  switch (operation->kind) {
  case TRACE_FREE_FOREIGN:
  case TRACE_REALLOC_FOREIGN:
  case TRACE_TOUCHED:
    return run->runners[operation->other].blocks;
  default:
    return runner->blocks;
  }
}

// Runs operations of the first thread in the heap until another one is earlier. If it must wait or has ended, it leaves
// the heap.
static const char *advance(run_t *run) {
  runner_t *runner = run->heap[0];
  uint64_t until = UINT64_MAX;
  for (uint32_t i = 1; i < 3 && i < run->runnable; i++) {
    until = run->heap[i]->key < until ? run->heap[i]->key : until;
  }
  do {
    if (runner->at == runner->count) {
      const char *wrong = refill(run, runner);
      if (wrong != NULL) {
        return wrong;
      }
      if (runner->count == 0) {
        drop_first(run);
        close_runner(runner);
        run->left--;
        return NULL;
      }
    }
    const trace_operation_t *operation = &runner->batch[runner->at];
    runner->key = operation->time_ns;
    if (runner->key > until) {
      break;
    }
    if (operation->kind == TRACE_WAIT && !passes(run, runner, operation)) {
      drop_first(run);
      return NULL;
    }
    const char *wrong = stats_count(run->counts, &run->counted[runner->known->thread], owner_of(run, runner, operation),
                                    operation, trace_complete(run->trace));
    if (wrong != NULL) {
      return wrong;
    }
    FILE *history = run->counts->history;
    uint64_t slot = (uint64_t)(owner_of(run, runner, operation) - run->blocks) + operation->slot;
    if (history != NULL && !stats_history_add(history, slot, operation)) {
      return "its history cannot be written";
    }
    runner->at++;
    runner->done++;
  } while (runner->done < runner->wake_at);
  sift_down(run, 0);
  if (runner->done >= runner->wake_at) {
    wake(run, runner);
  }
  return NULL;
}

// Limit of the tables: half of this machine's memory. Only a forged trace needs more.
static uint64_t memory_most(void) {
  return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

static const char *prepare(run_t *run) {
  run->threads = trace_thread_count(run->trace, run->process);
  for (uint32_t i = 0; i < run->threads; i++) {
    run->slots += trace_thread(run->trace, run->process, i)->slots;
  }
  if (run->slots > memory_most() / sizeof(stats_block_t)) {
    snprintf(run->error, run->error_bytes,
             "process %" PRIu32 " has up to %" PRIu64 " blocks at once, which need more memory than there is",
             run->process, run->slots);
    return run->error;
  }
  run->runners = calloc(run->threads + 1, sizeof *run->runners);
  run->heap = calloc(run->threads + 1, sizeof(void *));
  run->blocks = calloc(run->slots + 1, sizeof *run->blocks);
  if (run->runners == NULL || run->heap == NULL || run->blocks == NULL) {
    return no_memory(run, "blocks");
  }
  uint64_t slots = 0, began_ns = UINT64_MAX;
  for (uint32_t i = 0; i < run->threads; i++) {
    runner_t *runner = &run->runners[i];
    const trace_thread_t *known = trace_thread(run->trace, run->process, i);
    *runner = (runner_t){.known = known, .key = known->began_ns, .wake_at = UINT64_MAX, .blocks = run->blocks + slots};
    slots += known->slots;
    if (known->operations > 0) {
      push(run, runner);
      began_ns = known->began_ns < began_ns ? known->began_ns : began_ns;
    }
  }
  run->left = run->runnable;
  stats_begin(run->counts, run->left ? began_ns : 0);
  return NULL;
}

const char *stats_process(trace_t *trace, uint32_t process, stats_counts_t *counts, stats_thread_t *threads,
                          char *error, size_t error_bytes) {
  run_t run = {.trace = trace, .process = process, .counts = counts, .counted = threads, .error_bytes = error_bytes};
  run.error = error;
  const char *wrong = prepare(&run);
  if (wrong == NULL && counts->history != NULL && !stats_history_begin(counts->history, run.slots)) {
    wrong = "its history cannot be written";
  }
  while (wrong == NULL && run.runnable > 0) {
    wrong = advance(&run);
  }
  if (wrong == NULL && run.left > 0) {
    wrong = "its threads wait for each other";
  }
  if (wrong == NULL) {
    if (counts->stacks != NULL && counts->stacks->no_room) {
      return no_memory(&run, "stacks");
    }
    stats_count_kept(counts, run.blocks, run.slots);
  }
  for (uint32_t i = 0; run.runners != NULL && i < run.threads; i++) {
    close_runner(&run.runners[i]);
  }
  free(run.runners);
  free(run.heap);
  free(run.blocks);
  return wrong;
}
