// Measures the time of operations on sampled blocks, by the stack that allocated them. The clock is read only around
// these.
#include <stdio.h>
#include <string.h>

#include "replay.h"

#define PARTS 1024.0

void replay_stacks_begin(void) {
  if (replay.options->stack_mean <= 0) {
    return;
  }
  size_t bytes = TRACE_STACKS_MOST * sizeof *replay.stacks;
  replay.stacks = replay_map(bytes);
  if (replay.stacks == NULL) {
    replay_fail(REPLAY_FAILED, "no memory for the stacks");
  }
  memset(replay.stacks, 0, bytes);
}

// 1 - exp(-x) for x >= 0, to a relative error of a millionth: x is halved until a short series suffices.
static double taken(double x) {
  double half = x < 1e-3 ? 0 : taken(x / 2);
  return x < 1e-3 ? x - x * x / 2 : half * (2 - half);
}

static float weight_of(uint64_t size) {
  double mean = replay.options->stack_mean;
  return mean > 1 && size > 0 ? (float)(1 / taken((double)size / mean)) : 1;
}

// Runs one operation. If a reallocation was sampled, its time belongs to its own stack, else to the stack of the old
// block.
void replay_by_stack(worker_t *w, const trace_operation_t *o, void (*one)(worker_t *, const trace_operation_t *)) {
  if (o->kind == TRACE_STACK) {
    w->next_stack = o->other;
  }
  if (o->kind > TRACE_REALLOC_FOREIGN) {
    one(w, o);
    return;
  }
  bool foreign = o->kind == TRACE_FREE_FOREIGN || o->kind == TRACE_REALLOC_FOREIGN;
  bool frees = o->kind == TRACE_FREE || o->kind == TRACE_FREE_FOREIGN;
  _Atomic(replay_mark_t) *place = &(foreign ? &replay.workers[o->other] : w)->marks[o->slot];
  replay_mark_t before = atomic_load_explicit(place, memory_order_relaxed), mark = {0};
  if (!frees && w->next_stack != 0) {
    mark = (replay_mark_t){w->next_stack, weight_of(o->size)};
  }
  w->next_stack = frees ? w->next_stack : 0;
  atomic_store_explicit(place, mark, memory_order_relaxed); // before the free, since then the slot may be reused
  const replay_mark_t *whose = mark.stack != 0 ? &mark : &before;
  if (whose->stack == 0) {
    one(w, o);
    return;
  }
  uint64_t begin = replay_clock_of(CLOCK_THREAD_CPUTIME_ID);
  one(w, o);
  uint64_t ns = replay_clock_of(CLOCK_THREAD_CPUTIME_ID) - begin;
  ns = ns > replay.clock_ns ? ns - replay.clock_ns : 0;
  replay_stack_t *stack = &replay.stacks[whose->stack];
  atomic_fetch_add_explicit(&stack->ns, (uint64_t)((double)ns * whose->weight), memory_order_relaxed);
  atomic_fetch_add_explicit(&stack->samples, mark.stack != 0, memory_order_relaxed);
  atomic_fetch_add_explicit(&stack->blocks_1024, (uint64_t)(PARTS * mark.weight), memory_order_relaxed);
}

// [node, samples, blocks, ns] of each stack.
void replay_stacks_report(void) {
  printf(", \"stacks\": [");
  const char *between = "";
  for (uint32_t node = 0; replay.stacks != NULL && node < TRACE_STACKS_MOST; node++) {
    replay_stack_t *each = &replay.stacks[node];
    if (each->samples != 0) {
      printf("%s[%u, %llu, %.3f, %llu]", between, node, (unsigned long long)each->samples,
             (double)each->blocks_1024 / PARTS, (unsigned long long)each->ns);
      between = ", ";
    }
  }
  printf("]");
}
