// Records the stacks of sampled allocations. The distance between samples, in bytes, is drawn from the exponential
// distribution, so that every byte is equally likely. Stacks are unwound with the tables for exceptions, which all code
// has. The unwinder is linked into this library, so that nothing is looked up or allocated.
#include "recorder.h"

#include <errno.h>
#include <unwind.h>

enum { FRACTION_BITS = 20, MANTISSA_BITS = 53 };
#define LN2 0.6931471805599453

extern const char __ehdr_start[], etext[]; // bounds of this library's code

typedef struct {
  uintptr_t *frames;
  size_t count;
} walk_t;

// Binary logarithm, to FRACTION_BITS bits, by repeated squaring.
static double logarithm(uint64_t value) {
  int whole = 63 - __builtin_clzll(value);
  double rest = (double)value / (double)(UINT64_C(1) << whole), sum = whole, bit = 1;
  for (int i = 0; i < FRACTION_BITS; i++) {
    rest *= rest;
    bit /= 2;
    if (rest >= 2) {
      rest /= 2;
      sum += bit;
    }
  }
  return sum;
}

int64_t recorder_stack_distance(recorder_thread_t *self) {
  uint64_t mean = recorder_home->segment->stack_bytes;
  if (mean <= 1)
    return mean == 0 ? INT64_MAX : -1;
  uint64_t chance = self->chance ? self->chance : (segment_clock() ^ (uint64_t)self->number << 40) | 1;
  chance ^= chance << 13;
  chance ^= chance >> 7;
  chance ^= chance << 17;
  self->chance = chance;
  uint64_t drawn = ((chance * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - MANTISSA_BITS)) + 1;
  return (int64_t)((MANTISSA_BITS - logarithm(drawn)) * LN2 * (double)mean);
}

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *argument) {
  walk_t *stack = argument;
  int before = 0;
  uintptr_t pc = _Unwind_GetIPInfo(context, &before);
  bool own = pc - (uintptr_t)__ehdr_start < (uintptr_t)(etext - __ehdr_start);
  if (pc == 0 || stack->count == RECORDER_FRAMES)
    return _URC_END_OF_STACK;
  if (!own)
    stack->frames[stack->count++] = pc - (before == 0);
  return _URC_NO_REASON;
}

static bool is_node(segment_t *segment, uint32_t number, uint32_t parent, uint64_t pc) {
  const segment_node_t *node = segment_node(segment, number);
  return atomic_load_explicit(&node->pc, memory_order_acquire) == pc && node->parent == parent;
}

// The node of the place pc called by parent, or parent if there is no room. It takes no locks, since a signal handler
// may interrupt its thread here.
static uint32_t child(segment_t *segment, uint32_t parent, uint64_t pc) {
  _Atomic uint32_t *index = segment_index(segment);
  uint32_t at = (uint32_t)(((pc ^ (uint64_t)parent << 44) * UINT64_C(0x9E3779B97F4A7C15)) >> 40), mine = 0;
  for (;; at++) {
    _Atomic uint32_t *place = &index[at % SEGMENT_INDEX];
    uint32_t number = atomic_load_explicit(place, memory_order_acquire);
    if (number == 0 && mine == 0) {
      if (atomic_load_explicit(&segment->nodes, memory_order_relaxed) >= SEGMENT_NODES ||
          (mine = atomic_fetch_add(&segment->nodes, 1) + 1) > SEGMENT_NODES)
        return parent;
      segment_node_t *node = segment_node(segment, mine);
      node->parent = parent;
      atomic_store_explicit(&node->pc, pc, memory_order_release);
    }
    if (number == 0 && atomic_compare_exchange_strong(place, &number, mine))
      return mine;
    if (is_node(segment, number, parent, pc)) // else another node is in this place
      return number;
  }
}

void recorder_stack(size_t bytes) {
  int error = errno;
  recorder_thread_t *self = recorder_place();
  if (self != NULL && self->left >= (int64_t)bytes) { // first allocation of a thread: not its turn
    self->left -= (int64_t)bytes;
  } else if (self != NULL) {
    self->left = recorder_stack_distance(self);
    if (self->left != INT64_MAX && !self->unwinding) {
      segment_t *segment = recorder_home->segment;
      walk_t stack = {recorder_home->frames[self - recorder_home->threads], 0};
      self->unwinding = 1;
      _Unwind_Backtrace(note, &stack);
      uint32_t node = 0;
      while (stack.count > 0)
        node = child(segment, node, stack.frames[--stack.count]);
      self->unwinding = 0;
      if (node != 0)
        recorder_put((uint64_t)node << RAW_CODE_BITS | (RAW_SIZE_LIMIT + RAW_STACK));
    }
  }
  errno = error;
}
