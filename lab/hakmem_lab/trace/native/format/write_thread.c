#include "write_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_OPERATION_BYTES = 32,     // most bytes of one operation in one column
  COLUMN_BYTES_FIRST = 4u << 10, // first room of a column, which then doubles
};

static bool make_room(thread_t *thread) {
  size_t least = SIZE_MAX;
  for (int i = 0; i < TRACE_COLUMNS; i++) {
    column_t *column = &thread->columns[i];
    if (column->room - column->used < MOST_OPERATION_BYTES) {
      size_t room = column->room ? 2 * column->room : COLUMN_BYTES_FIRST;
      unsigned char *grown = realloc(column->data, room);
      if (grown == NULL) {
        return false;
      }
      column->data = grown;
      column->room = room;
    }
    size_t left = column->room - column->used;
    least = left < least ? left : least;
  }
  thread->room_operations = (uint32_t)(least / MOST_OPERATION_BYTES);
  return true;
}

static void put_number(thread_t *thread, trace_column_t which, uint64_t value) {
  column_t *column = &thread->columns[which];
  column->used = (size_t)(leb128_put(column->data + column->used, value) - column->data);
}

static trace_mark_t put_time(thread_t *thread, uint64_t time_ns) {
  trace_codec_t *codec = &thread->codec;
  if (time_ns == 0 || time_ns == thread->given_ns) {
    return MARK_NONE;
  }
  thread->given_ns = time_ns;
  if (time_ns <= codec->time_ns) {
    return MARK_NONE;
  }
  uint64_t elapsed = time_ns - codec->time_ns;
  if (elapsed > SHORT_LONGEST_NS) {
    put_number(thread, COLUMN_TIMES, elapsed);
    codec->time_ns = time_ns;
    return MARK_LONG;
  }
  unsigned char code = short_code(elapsed);
  column_t *times = &thread->columns[COLUMN_TIMES];
  times->data[times->used++] = code;
  codec->time_ns += short_time(code);
  return MARK_SHORT;
}

static trace_hint_t put_slot(thread_t *thread, uint32_t slot, uint32_t near) {
  uint64_t difference = zigzag((uint64_t)slot - near);
  bool is_near = difference < 0x80 || difference < slot;
  put_number(thread, COLUMN_SLOTS, is_near ? difference : slot);
  return is_near ? HINT_NEAR : HINT_TOLD;
}

static trace_hint_t put_allocation(thread_t *thread, const trace_operation_t *operation) {
  trace_codec_t *codec = &thread->codec;
  trace_hint_t hint;
  if (codec->freed_count > 0 && codec_top(codec) == operation->slot) {
    codec_pop(codec);
    hint = HINT_IMPLIED;
  } else if (operation->slot == codec->slots) {
    codec->slots++;
    hint = HINT_NEXT;
  } else {
    hint = put_slot(thread, operation->slot, codec->reused);
    codec->reused = operation->slot;
  }
  codec->allocated = operation->slot;
  put_number(thread, COLUMN_SIZES, operation->size);
  if (operation->kind == TRACE_ALIGNED) {
    put_number(thread, COLUMN_EXTRAS, operation->other);
  }
  return hint;
}

static trace_hint_t put_own(thread_t *thread, const trace_operation_t *operation) {
  trace_codec_t *codec = &thread->codec;
  trace_hint_t hint =
      operation->slot == codec->allocated ? HINT_IMPLIED : put_slot(thread, operation->slot, codec->named);
  codec->named = operation->slot;
  if (operation->kind == TRACE_FREE) {
    codec_push(codec, operation->slot);
  } else {
    put_number(thread, COLUMN_SIZES, operation->size);
  }
  return hint;
}

static trace_hint_t put_foreign(thread_t *thread, const trace_operation_t *operation) {
  trace_codec_t *codec = &thread->codec;
  trace_hint_t hint = HINT_NEAR;
  if (operation->other == codec->owner) {
    put_number(thread, COLUMN_SLOTS, zigzag((uint64_t)operation->slot - codec->foreign));
  } else {
    put_number(thread, COLUMN_SLOTS, operation->other);
    put_number(thread, COLUMN_SLOTS, operation->slot);
    hint = HINT_TOLD;
  }
  codec->owner = operation->other;
  codec->foreign = operation->slot;
  if (operation->kind == TRACE_REALLOC_FOREIGN) {
    put_number(thread, COLUMN_SIZES, operation->size);
  } else if (operation->kind == TRACE_TOUCHED) {
    put_number(thread, COLUMN_EXTRAS, operation->size);
  }
  return hint;
}

static trace_hint_t put_wait(thread_t *thread, const trace_operation_t *operation) {
  trace_codec_t *codec = &thread->codec;
  uint64_t before = operation->other == codec->awaited ? codec->awaited_count : 0;
  put_number(thread, COLUMN_EXTRAS, operation->other);
  put_number(thread, COLUMN_EXTRAS, zigzag(operation->size - before));
  codec->awaited = operation->other;
  codec->awaited_count = operation->size;
  return HINT_IMPLIED;
}

static bool is_possible(const trace_codec_t *codec, uint32_t number, const trace_operation_t *operation) {
  if (operation->kind != TRACE_WAIT && operation->size > TRACE_SIZE_MOST) {
    return false;
  }
  switch (operation->kind) {
  case TRACE_ALIGNED:
    return operation->slot <= codec->slots && operation->other <= TRACE_ALIGNMENT_LOG_MAX;
  case TRACE_MALLOC:
  case TRACE_CALLOC:
    return operation->slot <= codec->slots;
  case TRACE_FREE:
  case TRACE_REALLOC:
    return operation->slot < codec->slots;
  case TRACE_FREE_FOREIGN:
  case TRACE_REALLOC_FOREIGN:
  case TRACE_WAIT:
    return operation->other != number && operation->other < TRACE_THREADS;
  case TRACE_TOUCHED: /* NOLINT(bugprone-branch-clone): two limits that happen to be alike */
    return operation->other < TRACE_THREADS;
  case TRACE_STACK:
    return operation->other < TRACE_STACKS_MOST;
  default:
    return operation->kind == TRACE_THREAD_END;
  }
}

static trace_hint_t put_kind(thread_t *thread, const trace_operation_t *operation) {
  switch (operation->kind) {
  case TRACE_MALLOC:
  case TRACE_CALLOC:
  case TRACE_ALIGNED:
    return put_allocation(thread, operation);
  case TRACE_FREE:
  case TRACE_REALLOC:
    return put_own(thread, operation);
  case TRACE_WAIT:
    return put_wait(thread, operation);
  case TRACE_STACK:
    put_number(thread, COLUMN_EXTRAS, operation->other);
    return HINT_IMPLIED;
  case TRACE_THREAD_END:
    return HINT_IMPLIED;
  default:
    return put_foreign(thread, operation);
  }
}

int thread_put(thread_t *thread, uint32_t number, const trace_operation_t *operation) {
  if (!is_possible(&thread->codec, number, operation)) {
    return EINVAL;
  }
  if (thread->room_operations == 0 && !make_room(thread)) {
    return ENOMEM;
  }
  thread->room_operations--;
  trace_mark_t mark = put_time(thread, operation->time_ns);
  if (thread->operations == 0) {
    thread->began_ns = thread->codec.time_ns;
  }
  trace_hint_t hint = put_kind(thread, operation);
  column_t *codes = &thread->columns[COLUMN_CODES];
  codes->data[codes->used++] = (unsigned char)(operation->kind | hint << HINT_SHIFT | mark << MARK_SHIFT);
  thread->operations++;
  return 0;
}

size_t thread_take(thread_t *thread, unsigned char *payload) {
  uint32_t lengths[TRACE_COLUMNS];
  size_t bytes = sizeof lengths;
  for (int i = 0; i < TRACE_COLUMNS; i++) {
    lengths[i] = (uint32_t)thread->columns[i].used;
    memcpy(payload + bytes, thread->columns[i].data, lengths[i]);
    bytes += lengths[i];
    thread->columns[i].used = 0;
  }
  memcpy(payload, lengths, sizeof lengths);
  thread->operations = thread->room_operations = 0;
  return bytes;
}

void thread_free(thread_t *thread) {
  for (int i = 0; i < TRACE_COLUMNS; i++) {
    free(thread->columns[i].data);
  }
  free(thread);
}
