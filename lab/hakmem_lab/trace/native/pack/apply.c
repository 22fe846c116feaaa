// Applies one word of any kind.
#include "parts.h"

// Marks the block as last changed by the latest operation of this thread.
static void define(const pack_process_t *process, uint32_t number, pack_block_t *block) {
  block->definer = PACK_LOW_BITS(number, 20);
  block->defined = PACK_LOW_BITS(process->threads[number]->count, 44);
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
  if (pack_release(process, number, *place) != 0) {
    return -1;
  }
  *place = pack_table_find(&process->table, address);
  return PACK_DONE;
}

static uint64_t bounded(uint64_t size) {
  return size < PACK_SIZE_MOST ? size : PACK_SIZE_MOST;
}

static int do_allocate(pack_process_t *process, uint32_t number, const uint64_t *words, bool forced) {
  uint32_t code = pack_code(words[0]);
  pack_request_t request = {.address = pack_field(words[0]), .size = code, .kind = TRACE_MALLOC};
  if (code == RAW_SIZE_LIMIT + RAW_ALIGNED) {
    uint32_t alignment = (words[1] - 1) & 63;
    request.kind = TRACE_ALIGNED;
    request.size = bounded((words[1] - 1) >> 6);
    request.alignment = alignment < TRACE_ALIGNMENT_LOG_MAX ? alignment : TRACE_ALIGNMENT_LOG_MAX;
  } else if (code >= RAW_SIZE_LIMIT) {
    request.kind = code == RAW_SIZE_LIMIT + RAW_CALLOC ? TRACE_CALLOC : TRACE_MALLOC;
    request.size = bounded(words[1] - 1);
  }
  pack_block_t *place;
  int status = make_place(process, number, request.address, forced, &place);
  if (status == PACK_DONE) {
    process->counts.allocations++;
    status = pack_allocate(process, number, place, request);
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
  return pack_release(process, number, place);
}

// Puts the block back to its old address: the reallocation failed, or its end was never recorded.
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

// From here to its RAW_REALLOC_TO the block has no address, since another thread may get the old one at once.
static int do_realloc_from(pack_process_t *process, uint32_t number, uint64_t address, bool forced) {
  pack_thread_t *thread = process->threads[number];
  if (thread->reallocating && realloc_undo(process, number) != 0) {
    return -1;
  }
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

static int do_realloc_to(pack_process_t *process, uint32_t number, const uint64_t *words, bool forced) {
  pack_thread_t *thread = process->threads[number];
  uint64_t address = pack_field(words[0]);
  if (address == 0) {
    return thread->reallocating ? realloc_undo(process, number) : PACK_DONE;
  }
  pack_block_t *place;
  uint64_t size = bounded(words[1] - 1);
  int status = make_place(process, number, address, forced, &place);
  if (status != PACK_DONE) {
    return status;
  }
  pack_block_t block = thread->moved;
  bool known = thread->reallocating && block.address != 0;
  thread->reallocating = false;
  if (!known) {
    process->counts.allocations++;
    return pack_allocate(process, number, place, (pack_request_t){address, size, TRACE_MALLOC, 0});
  }
  if (pack_wait(process, number, &block) != 0) {
    return -1;
  }
  trace_operation_t operation = {.kind = TRACE_REALLOC, .slot = (uint32_t)block.slot, .size = size};
  if (block.owner != number) {
    operation.kind = TRACE_REALLOC_FOREIGN;
    operation.other = block.owner;
    process->counts.handed_over++;
  }
  if (pack_put(process, number, operation) != 0) {
    return -1;
  }
  process->counts.reallocations++;
  process->counts.live_bytes += size - block.size;
  block.address = PACK_LOW_BITS(address, 44);
  block.size = PACK_LOW_BITS(size, 44);
  define(process, number, &block);
  *place = block;
  process->table.count++;
  return PACK_DONE;
}

// The block may be gone: the words describe the state at the time when they were written.
static int do_touched(pack_process_t *process, uint32_t number, const uint64_t *words) {
  pack_block_t *place = pack_table_find(&process->table, pack_field(words[0]));
  if (place->address == 0) {
    return PACK_DONE;
  }
  uint64_t bytes = words[1] - 1 < place->size ? words[1] - 1 : place->size;
  trace_operation_t operation = {
      .kind = TRACE_TOUCHED, .slot = (uint32_t)place->slot, .other = place->owner, .size = bytes};
  if (pack_wait(process, number, place) != 0 || pack_put(process, number, operation) != 0) {
    return -1;
  }
  define(process, number, place);
  return PACK_DONE;
}

static int do_end(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  if ((thread->reallocating && realloc_undo(process, number) != 0) ||
      pack_put(process, number, (trace_operation_t){.kind = TRACE_THREAD_END}) != 0) {
    return -1;
  }
  thread->ended = true;
  process->last_ended = number + 1;
  process->counts.damaged += thread->end - thread->at - 1; // words after the end
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
  case RAW_STACK:
    process->threads[number]->stack = address < TRACE_STACKS_MOST ? (uint32_t)address : 0;
    return PACK_DONE;
  default:
    return do_allocate(process, number, words, forced);
  }
}

int pack_apply(pack_process_t *process, uint32_t number, bool forced) {
  pack_thread_t *thread = process->threads[number];
  const uint64_t *words = thread->words + thread->at;
  size_t length = pack_record_words(words[0]);
  int status = do_kind(process, number, words, forced);
  if (status == PACK_DONE && !thread->ended) {
    thread->at += length;
  }
  return status;
}
