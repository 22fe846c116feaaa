// Operations on blocks. A block records the thread of its last operation, and that thread's count of operations. The
// next thread waits for this count, unless it has already waited for it. So the operations on one block keep their
// order in every replay, and nothing else needs an order. All waits point backwards in the order found, so they cannot
// deadlock.
#include <errno.h>

#include "parts.h"

// While at most this many slots freed by others are unused, the owner takes none that it would have to wait for.
#define RETURNED_SPARE 32
#define PREFETCHED 10 // distance of the prefetch in words

static inline int put(pack_process_t *process, uint32_t number, trace_operation_t operation) {
  pack_thread_t *thread = process->threads[number];
  operation.time_ns = thread->time_ns;
  thread->time_ns = 0;
  thread->count++;
  process->last = number + 1;
  return trace_write_operation(process->pack->writer, process->number, number, &operation);
}

static inline int put_stack(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  if (thread->stack == 0) {
    return 0;
  }
  trace_operation_t operation = {.kind = TRACE_STACK, .other = thread->stack};
  thread->stack = 0;
  return put(process, number, operation);
}

// Waits for a count halfway between the needed one and the other thread's present one. So one wait serves several
// blocks, but the replay keeps half the slack that the program had.
static int wait_for_other(pack_process_t *process, uint32_t number, uint32_t other, uint64_t count) {
  pack_thread_t *thread = process->threads[number];
  if (pack_known(&thread->knowledge, other) >= count) {
    return 0;
  }
  uint64_t done = process->threads[other]->count;
  count += (done - count) / 2;
  if (pack_learn(process, &thread->knowledge, other, count) != 0) {
    return -1;
  }
  return put(process, number, (trace_operation_t){.kind = TRACE_WAIT, .other = other, .size = count});
}

static inline int wait_for(pack_process_t *process, uint32_t number, uint32_t other, uint64_t count) {
  return other == number ? 0 : wait_for_other(process, number, other, count);
}

// A thread begins after the last operation, and after the thread that ended last. So a replay has about as many threads
// at once as the program had.
static int wait_first(pack_process_t *process, uint32_t number) {
  uint32_t waits[] = {process->last, process->last_ended};
  for (size_t i = 0; i < 2; i++) {
    if (waits[i] != 0 && wait_for(process, number, waits[i] - 1, process->threads[waits[i] - 1]->count) != 0) {
      return -1;
    }
  }
  return 0;
}

static inline int begin(pack_process_t *process, uint32_t number) {
  return process->threads[number]->count != 0 ? 0 : wait_first(process, number);
}

// Takes a slot while none freed by the owner itself is left: one freed by others, or a new one.
static int slot_of_others(pack_process_t *process, uint32_t number, uint32_t *slot) {
  pack_thread_t *thread = process->threads[number];
  pack_slots_t *slots = &thread->slots;
  if (slots->returned_count > 0) {
    pack_returned_t first = slots->returned[slots->returned_at];
    if (slots->returned_count > RETURNED_SPARE || pack_known(&thread->knowledge, first.freer) >= first.count) {
      slots->returned_at = (slots->returned_at + 1) & (slots->returned_capacity - 1);
      slots->returned_count--;
      *slot = first.slot;
      return wait_for(process, number, first.freer, first.count);
    }
  }
  if (slots->used == UINT32_MAX) {
    errno = EOVERFLOW;
    return -1;
  }
  *slot = slots->used++;
  return 0;
}

static inline int slot_take(pack_process_t *process, uint32_t number, uint32_t *slot) {
  pack_slots_t *slots = &process->threads[number]->slots;
  if (slots->own_count == 0) {
    return slot_of_others(process, number, slot);
  }
  *slot = slots->own[--slots->own_count];
  return 0;
}

static int release_foreign(pack_process_t *process, uint32_t number, uint32_t owner_number, uint32_t slot) {
  trace_operation_t operation = {.kind = TRACE_FREE_FOREIGN, .slot = slot, .other = owner_number};
  if (put(process, number, operation) != 0) {
    return -1;
  }
  process->counts.handed_over++;
  pack_thread_t *owner = process->threads[owner_number];
  pack_returned_t returned = {slot, number, process->threads[number]->count};
  return owner->ended ? 0 : pack_slot_return(&owner->slots, returned);
}

static inline int release(pack_process_t *process, uint32_t number, pack_block_t *place) {
  uint32_t slot = (uint32_t)place->slot;
  uint32_t owner = place->owner;
  uint32_t definer = (uint32_t)place->definer;
  uint64_t defined = place->defined;
  process->counts.live_bytes -= place->size;
  pack_table_remove(&process->table, place);
  if (wait_for(process, number, definer, defined) != 0) {
    return -1;
  }
  if (owner != number) {
    return release_foreign(process, number, owner, slot);
  }
  if (put(process, number, (trace_operation_t){.kind = TRACE_FREE, .slot = slot}) != 0) {
    return -1;
  }
  return pack_slot_give(&process->threads[number]->slots, slot);
}

static inline int allocate(pack_process_t *process, uint32_t number, pack_block_t *place, pack_request_t request) {
  uint32_t slot;
  if (begin(process, number) != 0 || slot_take(process, number, &slot) != 0 || put_stack(process, number) != 0 ||
      put(process, number,
          (trace_operation_t){
              .kind = (uint8_t)request.kind, .slot = slot, .size = request.size, .other = request.alignment}) != 0) {
    return -1;
  }
  uint64_t order = process->order++;
  *place = (pack_block_t){.address = PACK_LOW_BITS(request.address, 44),
                          .owner = PACK_LOW_BITS(number, 20),
                          .slot = slot,
                          .definer = PACK_LOW_BITS(number, 20),
                          .alignment = PACK_LOW_BITS(request.alignment, 6),
                          .zeroed = request.kind == TRACE_CALLOC,
                          .defined = PACK_LOW_BITS(process->threads[number]->count, 44),
                          .order_high = PACK_LOW_BITS(order >> 20, 20),
                          .size = PACK_LOW_BITS(request.size, 44),
                          .order_low = PACK_LOW_BITS(order, 20)};
  process->table.count++;
  process->counts.live_bytes += request.size;
  return 0;
}

int pack_put(pack_process_t *process, uint32_t thread, trace_operation_t operation) {
  bool asks = operation.kind == TRACE_REALLOC || operation.kind == TRACE_REALLOC_FOREIGN;
  if (asks && put_stack(process, thread) != 0) {
    return -1;
  }
  return put(process, thread, operation);
}

int pack_wait(pack_process_t *process, uint32_t thread, const pack_block_t *block) {
  return begin(process, thread) != 0 ? -1 : wait_for(process, thread, (uint32_t)block->definer, block->defined);
}

int pack_allocate(pack_process_t *process, uint32_t thread, pack_block_t *place, pack_request_t request) {
  return allocate(process, thread, place, request);
}

int pack_release(pack_process_t *process, uint32_t thread, pack_block_t *place) {
  return begin(process, thread) != 0 ? -1 : release(process, thread, place);
}

static bool is_alone(const pack_process_t *process, uint64_t address, pack_claim_t claim) {
  if (!process->tags) {
    return true;
  }
  pack_tag_t *tag = pack_tag(process, address, claim);
  if (tag->other != 0) {
    return false;
  }
  pack_tag_drop(tag);
  return true;
}

int pack_apply_plain(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  while (thread->at < thread->stop) {
    uint64_t word = thread->words[thread->at];
    uint32_t code = pack_code(word);
    if (code > RAW_SIZE_LIMIT + RAW_FREE) {
      break;
    }
    pack_claim_t claim = code < RAW_SIZE_LIMIT ? PACK_TAKES : PACK_GIVES;
    if (thread->at + PREFETCHED < thread->end) {
      pack_table_prefetch(&process->table, pack_field(thread->words[thread->at + PREFETCHED]));
    }
    if (pack_table_room(&process->table) != 0) {
      return -1;
    }
    pack_block_t *place = pack_table_find(&process->table, pack_field(word));
    if ((place->address == 0) != (claim == PACK_TAKES) || !is_alone(process, pack_field(word), claim)) {
      break;
    }
    int status;
    if (claim == PACK_TAKES) {
      process->counts.allocations++;
      status = allocate(process, number, place, (pack_request_t){pack_field(word), code, TRACE_MALLOC, 0});
    } else {
      process->counts.frees++;
      status = begin(process, number) != 0 ? -1 : release(process, number, place);
    }
    if (status != 0) {
      return -1;
    }
    thread->at++;
  }
  return 0;
}

int pack_inherited(pack_process_t *process, const pack_block_t *block) {
  if (!pack_thread_at(process, 0) || pack_table_room(&process->table) != 0) {
    return -1;
  }
  process->counts.allocations++;
  trace_kind_t kind = block->zeroed ? TRACE_CALLOC : block->alignment ? TRACE_ALIGNED : TRACE_MALLOC;
  return allocate(
      process, 0, pack_table_find(&process->table, block->address),
      (pack_request_t){block->address, block->size, kind, kind == TRACE_ALIGNED ? (uint32_t)block->alignment : 0});
}
