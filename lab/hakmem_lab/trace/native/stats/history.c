// Writes the operations of a process as the steps of one thread, for the library that makes a used heap.
#include "../../../system/native/used/past.h"
#include "stats.h"

bool stats_history_begin(FILE *file, uint64_t slots) {
  past_head_t head = {.magic = PAST_MAGIC, .slots = slots};
  return fwrite(&head, sizeof head, 1, file) == 1;
}

bool stats_history_add(FILE *file, uint64_t slot, const trace_operation_t *o) {
  past_step_t step = {.size = o->size, .slot = (uint32_t)slot};
  switch (o->kind) {
  case TRACE_ALIGNED:
    step.alignment_log = (uint8_t)o->other;
    break;
  case TRACE_MALLOC:
  case TRACE_CALLOC:
    step.zeroed = o->kind == TRACE_CALLOC;
    break;
  case TRACE_FREE:
  case TRACE_FREE_FOREIGN:
    step.kind = PAST_FREE;
    break;
  case TRACE_REALLOC:
  case TRACE_REALLOC_FOREIGN:
    step.kind = PAST_RESIZE;
    break;
  case TRACE_TOUCHED:
    step.kind = PAST_TOUCH;
    break;
  default:
    return true;
  }
  return fwrite(&step, sizeof step, 1, file) == 1;
}
