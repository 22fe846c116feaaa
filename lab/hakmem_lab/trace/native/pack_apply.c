// What a word does. Each operation on a block names the thread that last did something to it and how far that one was:
// whoever comes next waits for that, unless it knows already. So what is done to one block keeps its order in every
// replay, and nothing else needs to. All waits point backwards in the order that was found: they cannot lock each
// other.
#include <errno.h>

#include "pack_parts.h"

// As many slots that others freed stay unused before the owner takes one that it would have to wait for.
#define RETURNED_SPARE 32

#define LOW_BITS(value, bits) ((value) & (((uint64_t)1 << (bits)) - 1)) // an inline function would hide that it fits

static int put(pack_process_t *process, uint32_t number, trace_operation_t operation) {
  pack_thread_t *thread = process->threads[number];
  operation.time_ns = thread->time_ns;
  thread->time_ns = 0;
  thread->count++;
  process->last = number + 1;
  return trace_write_operation(process->pack->writer, process->number, number, &operation);
}

// What lies halfway to where the other one is by now is waited for: one wait then serves several blocks, and still the
// replay has half the slack that the program had.
static int wait_for(pack_process_t *process, uint32_t number, uint32_t other, uint64_t count) {
  pack_thread_t *thread = process->threads[number];
  if (other == number || pack_known(&thread->knowledge, other) >= count) {
    return 0;
  }
  uint64_t done = process->threads[other]->count;
  count += (done - count) / 2;
  if (pack_learn(&thread->knowledge, other, count) != 0) {
    return -1;
  }
  return put(process, number, (trace_operation_t){.kind = TRACE_WAIT, .other = other, .size = count});
}

// A thread begins after what was done last, and after the thread that ended last: so a replay has about as many threads
// at once as the program had.
static int begin(pack_process_t *process, uint32_t number) {
  if (process->threads[number]->count != 0 || process->last == 0) {
    return 0;
  }
  uint32_t waits[] = {process->last, process->last_ended};
  for (size_t i = 0; i < 2; i++) {
    if (waits[i] != 0 && wait_for(process, number, waits[i] - 1, process->threads[waits[i] - 1]->count) != 0) {
      return -1;
    }
  }
  return 0;
}

static int slot_take(pack_process_t *process, uint32_t number, uint32_t *slot) {
  pack_thread_t *thread = process->threads[number];
  pack_slots_t *slots = &thread->slots;
  if (slots->own_count > 0) {
    *slot = slots->own[--slots->own_count];
    return 0;
  }
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

// The block was last touched by this thread, which has just done so.
static void define(pack_process_t *process, uint32_t number, pack_block_t *block) {
  block->definer = LOW_BITS(number, 20);
  block->defined = LOW_BITS(process->threads[number]->count, 44);
}

static void count_live(pack_process_t *process, const pack_block_t *block, bool more) {
  process->counts.live_blocks += more ? 1 : -1ull;
  process->counts.live_bytes += more ? block->size : -(uint64_t)block->size;
}

static int release(pack_process_t *process, uint32_t number, pack_block_t *place) {
  pack_block_t block = *place;
  pack_table_remove(&process->table, place);
  count_live(process, &block, false);
  if (wait_for(process, number, block.definer, block.defined) != 0) {
    return -1;
  }
  trace_operation_t operation = {.kind = TRACE_FREE, .slot = (uint32_t)block.slot};
  if (block.owner == number) {
    return put(process, number, operation) || pack_slot_give(&process->threads[number]->slots, (uint32_t)block.slot)
               ? -1
               : 0;
  }
  operation.kind = TRACE_FREE_FOREIGN;
  operation.other = block.owner;
  if (put(process, number, operation) != 0) {
    return -1;
  }
  process->counts.handed_over++;
  pack_thread_t *owner = process->threads[block.owner];
  pack_returned_t returned = {(uint32_t)block.slot, number, process->threads[number]->count};
  return owner->ended ? 0 : pack_slot_return(&owner->slots, returned);
}

static int allocate(pack_process_t *process, uint32_t number, pack_block_t *place, pack_block_t block) {
  uint32_t slot;
  if (begin(process, number) != 0 || slot_take(process, number, &slot) != 0) {
    return -1;
  }
  trace_operation_t operation = {.kind = TRACE_MALLOC, .slot = slot, .size = block.size};
  if (block.zeroed) {
    operation.kind = TRACE_CALLOC;
  } else if (block.alignment) {
    operation.kind = TRACE_ALIGNED;
    operation.other = block.alignment;
  }
  if (put(process, number, operation) != 0) {
    return -1;
  }
  block.owner = LOW_BITS(number, 20);
  block.slot = slot;
  block.order_high = LOW_BITS(process->order >> 20, 20);
  block.order_low = LOW_BITS(process->order++, 20);
  define(process, number, &block);
  *place = block;
  process->table.count++;
  count_live(process, &block, true);
  return 0;
}

// The place for a new block at this address, emptied. PACK_BLOCKED: another block is there.
static int make_place(pack_process_t *process, uint32_t number, uint64_t address, bool forced, pack_block_t **place) {
  if (pack_table_room(&process->table) != 0) {
    return -1;
  }
  *place = pack_table_find(&process->table, address);
  if ((*place)->address == 0) {
    return PACK_DONE;
  }
  if (!forced) {
    return PACK_BLOCKED;
  }
  process->counts.lost_frees++;
  if (release(process, number, *place) != 0) {
    return -1;
  }
  *place = pack_table_find(&process->table, address);
  return PACK_DONE;
}

static int do_allocate(pack_process_t *process, uint32_t number, const uint64_t *words, bool forced) {
  uint32_t code = pack_code(words[0]);
  uint64_t address = pack_field(words[0]);
  pack_block_t block = {.address = LOW_BITS(address, 44)};
  uint64_t size = code;
  if (code >= RAW_SIZE_LIMIT) {
    size = words[1] - 1;
    block.zeroed = code - RAW_SIZE_LIMIT == RAW_CALLOC;
    if (code - RAW_SIZE_LIMIT == RAW_ALIGNED) {
      block.alignment = LOW_BITS(size, 6);
      size >>= 6;
    }
  }
  block.size = LOW_BITS(size < PACK_SIZE_MOST ? size : PACK_SIZE_MOST, 44);
  pack_block_t *place;
  int status = make_place(process, number, block.address, forced, &place);
  if (status == PACK_DONE) {
    process->counts.allocations++;
    status = allocate(process, number, place, block);
  }
  return status;
}

static int do_free(pack_process_t *process, uint32_t number, uint64_t address, bool forced) {
  pack_block_t *place = pack_table_find(&process->table, address);
  if (place->address == 0) {
    process->counts.unknown_frees += forced;
    return forced ? PACK_DONE : PACK_BLOCKED;
  }
  process->counts.frees++;
  return begin(process, number) || release(process, number, place) ? -1 : PACK_DONE;
}

// From here to its RAW_REALLOC_TO the block has no address: another thread may be given the old one at once.
static int do_realloc_from(pack_process_t *process, uint32_t number, uint64_t address, bool forced) {
  pack_thread_t *thread = process->threads[number];
  pack_block_t *place = pack_table_find(&process->table, address);
  thread->moved = *place;
  if (place->address != 0) {
    pack_table_remove(&process->table, place);
  } else if (!forced && address != 0) {
    return PACK_BLOCKED;
  } else {
    process->counts.unknown_frees += address != 0;
  }
  thread->reallocating = true;
  return PACK_DONE;
}

// The block stays where it was: the reallocation failed, or its end was never seen.
static int realloc_undo(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  thread->reallocating = false;
  if (thread->moved.address == 0) {
    return PACK_DONE;
  }
  pack_block_t *place;
  if (make_place(process, number, thread->moved.address, true, &place) != 0) {
    return -1;
  }
  *place = thread->moved;
  process->table.count++;
  return PACK_DONE;
}

static int do_realloc_to(pack_process_t *process, uint32_t number, const uint64_t *words, bool forced) {
  pack_thread_t *thread = process->threads[number];
  uint64_t address = pack_field(words[0]);
  if (address == 0) {
    return thread->reallocating ? realloc_undo(process, number) : PACK_DONE;
  }
  pack_block_t *place;
  uint64_t size = words[1] - 1 < PACK_SIZE_MOST ? words[1] - 1 : PACK_SIZE_MOST;
  int status = make_place(process, number, address, forced, &place);
  if (status != PACK_DONE) {
    return status;
  }
  pack_block_t block = thread->moved;
  bool known = thread->reallocating && block.address != 0;
  thread->reallocating = false;
  if (!known) {
    process->counts.allocations++;
    return allocate(process, number, place,
                    (pack_block_t){.address = LOW_BITS(address, 44), .size = LOW_BITS(size, 44)});
  }
  if (begin(process, number) != 0 || wait_for(process, number, block.definer, block.defined) != 0) {
    return -1;
  }
  trace_operation_t operation = {.kind = TRACE_REALLOC, .slot = (uint32_t)block.slot, .size = size};
  if (block.owner != number) {
    operation.kind = TRACE_REALLOC_FOREIGN;
    operation.other = block.owner;
    process->counts.handed_over++;
  }
  if (put(process, number, operation) != 0) {
    return -1;
  }
  process->counts.reallocations++;
  process->counts.live_bytes += size - block.size;
  block.address = LOW_BITS(address, 44);
  block.size = LOW_BITS(size, 44);
  define(process, number, &block);
  *place = block;
  process->table.count++;
  return PACK_DONE;
}

// A block that is gone meanwhile is no matter: these words are about what was there when they were written.
static int do_touched(pack_process_t *process, uint32_t number, const uint64_t *words) {
  pack_block_t *place = pack_table_find(&process->table, pack_field(words[0]));
  if (place->address == 0) {
    return PACK_DONE;
  }
  uint64_t bytes = words[1] - 1 < place->size ? words[1] - 1 : place->size;
  trace_operation_t operation = {
      .kind = TRACE_TOUCHED, .slot = (uint32_t)place->slot, .other = place->owner, .size = bytes};
  if (begin(process, number) != 0 || wait_for(process, number, place->definer, place->defined) != 0 ||
      put(process, number, operation) != 0) {
    return -1;
  }
  define(process, number, place);
  return PACK_DONE;
}

static int do_end(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  if (put(process, number, (trace_operation_t){.kind = TRACE_THREAD_END}) != 0) {
    return -1;
  }
  thread->ended = true;
  process->last_ended = number + 1;
  process->counts.damaged += thread->end - thread->at - 1; // words of the dead
  pack_thread_release(thread);
  return PACK_DONE;
}

static int do_kind(pack_process_t *process, uint32_t number, const uint64_t *words, bool forced) {
  uint64_t address = pack_field(words[0]);
  switch ((int)pack_code(words[0]) - (int)RAW_SIZE_LIMIT) {
  case RAW_FREE:
    return do_free(process, number, address, forced);
  case RAW_REALLOC_FROM:
    return do_realloc_from(process, number, address, forced);
  case RAW_REALLOC_TO:
    return do_realloc_to(process, number, words, forced);
  case RAW_TOUCHED:
    return do_touched(process, number, words);
  case RAW_FORK:
    return pack_fork(process, address);
  case RAW_THREAD_END:
    return do_end(process, number);
  default:
    return do_allocate(process, number, words, forced);
  }
}

int pack_apply(pack_process_t *process, uint32_t number, bool forced) {
  pack_thread_t *thread = process->threads[number];
  const uint64_t *words = thread->words + thread->at;
  size_t length = pack_record_words(words[0]);
  if (thread->reallocating && pack_code(words[0]) != RAW_SIZE_LIMIT + RAW_REALLOC_TO && realloc_undo(process, number)) {
    return -1;
  }
  int status = do_kind(process, number, words, forced);
  if (status == PACK_DONE && !thread->ended) {
    thread->at += length;
  }
  return status;
}

int pack_inherited(pack_process_t *process, const pack_block_t *block) {
  if (!pack_thread_at(process, 0) || pack_table_room(&process->table) != 0) {
    return -1;
  }
  process->counts.allocations++;
  pack_block_t own = {.address = block->address, .size = block->size};
  own.alignment = block->alignment;
  own.zeroed = block->zeroed;
  return allocate(process, 0, pack_table_find(&process->table, block->address), own);
}
