// Decodes the operations from the columns; every number is checked before it is used.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "codec.h"
#include "read_file.h"
#include "resident.h"

typedef struct {
  const unsigned char *at, *end;
} column_t;

struct trace_stream {
  trace_t *trace;
  const thread_entry_t *thread;
  uint32_t next;     // index of the next chunk
  uint32_t left;     // remaining operations of the present chunk
  uint32_t number;   // number of the present chunk, for messages
  bool more, over;   // more: further chunks exist; over: TRACE_THREAD_END was read
  const char *wrong; // the first mistake within a chunk
  unsigned char *plain;
  size_t plain_bytes;
  column_t columns[TRACE_COLUMNS];
  trace_codec_t codec;
  char error[TRACE_ERROR_BYTES];
};

trace_stream_t *trace_stream_open(trace_t *trace, uint32_t process, uint32_t thread) {
  const thread_entry_t *entry = thread_entry(trace, process, thread);
  if (entry == NULL) {
    errno = EINVAL;
    return NULL;
  }
  trace_stream_t *stream = memory_get(sizeof *stream);
  if (stream != NULL) {
    stream->trace = trace;
    stream->thread = entry;
    stream->next = entry->chain.first;
    stream->more = entry->known.operations > 0;
  }
  return stream;
}

static void free_plain(trace_stream_t *stream) {
  if (stream->plain != NULL) {
    memory_put(stream->plain, stream->plain_bytes);
    atomic_fetch_sub(&stream->trace->stream_bytes, stream->plain_bytes);
    stream->plain = NULL;
  }
}

void trace_stream_close(trace_stream_t *stream) {
  free_plain(stream);
  memory_put(stream, sizeof *stream);
}

size_t trace_stream_bytes(const trace_stream_t *stream) {
  size_t found;
  return resident_bytes(stream, sizeof *stream, &found) ? found : sizeof *stream;
}

const char *trace_stream_error(const trace_stream_t *stream) {
  return stream->error;
}

static long damaged(trace_stream_t *stream, const char *what) {
  const trace_thread_t *thread = &stream->thread->known;
  snprintf(stream->error, sizeof stream->error,
           "the trace is damaged in process %" PRIu32 ", thread %" PRIu32 ", chunk %" PRIu32 ": %s", thread->process,
           thread->thread, stream->number, what);
  return -1;
}

static const char *make_room(trace_stream_t *stream) {
  if (stream->plain != NULL) {
    return NULL;
  }
  stream->plain_bytes = stream->thread->most_bytes;
  uint64_t before = atomic_fetch_add(&stream->trace->stream_bytes, stream->plain_bytes);
  stream->plain = before + stream->plain_bytes <= STREAM_BYTES_MOST ? memory_get(stream->plain_bytes) : NULL;
  if (stream->plain == NULL) {
    atomic_fetch_sub(&stream->trace->stream_bytes, stream->plain_bytes);
    return "its threads need more memory than any that hak writes";
  }
  return NULL;
}

// Divides the payload into its columns.
static const char *divide(trace_stream_t *stream, const trace_chunk_t *head) {
  uint32_t lengths[TRACE_COLUMNS];
  if (head->bytes < sizeof lengths) {
    return "it is too short for its columns";
  }
  memcpy(lengths, stream->plain, sizeof lengths);
  const unsigned char *at = stream->plain + sizeof lengths;
  uint64_t left = head->bytes - sizeof lengths;
  for (int i = 0; i < TRACE_COLUMNS; i++) {
    if (lengths[i] > left) {
      return "its columns are longer than it is";
    }
    stream->columns[i] = (column_t){at, at + lengths[i]};
    at += lengths[i];
    left -= lengths[i];
  }
  return left != 0 || lengths[COLUMN_CODES] != head->operations ? "its columns are not as long as it says" : NULL;
}

static const char *next_chunk(trace_stream_t *stream) {
  const chunk_entry_t *chunk = &((const chunk_entry_t *)stream->trace->chunks.data)[stream->next];
  stream->number++;
  const char *wrong = make_room(stream);
  wrong = wrong ? wrong : chunk_unpack(stream->trace, chunk, stream->plain);
  wrong = wrong ? wrong : divide(stream, &chunk->head);
  stream->more = stream->next != stream->thread->chain.last;
  stream->next = chunk->next;
  stream->left = chunk->head.operations;
  return wrong;
}

static const char *finish_chunk(trace_stream_t *stream) {
  for (int i = 0; i < TRACE_COLUMNS; i++) {
    if (stream->columns[i].at != stream->columns[i].end) {
      return "its columns hold more than its operations need";
    }
  }
  return stream->over && stream->more ? "the thread goes on after its end" : NULL;
}

static uint64_t number(trace_stream_t *stream, trace_column_t which) {
  column_t *column = &stream->columns[which];
  if (column->at < column->end && *column->at < 0x80) {
    return *column->at++;
  }
  uint64_t value = 0;
  const unsigned char *at = leb128_get(column->at, column->end, &value);
  if (at == NULL) {
    stream->wrong = "a number is cut off or too large";
    return 0;
  }
  column->at = at;
  return value;
}

static uint32_t small(trace_stream_t *stream, uint64_t value, uint64_t limit, const char *wrong) {
  if (value >= limit) {
    stream->wrong = wrong;
    return 0;
  }
  return (uint32_t)value;
}

static uint64_t size(trace_stream_t *stream, trace_column_t which) {
  uint64_t value = number(stream, which);
  if (value > TRACE_SIZE_MOST) {
    stream->wrong = "a block is larger than any memory";
  }
  return value;
}

static uint32_t told(trace_stream_t *stream, trace_hint_t hint, uint32_t near, uint64_t limit) {
  uint64_t value = number(stream, COLUMN_SLOTS);
  if (hint == HINT_NEAR) {
    value = near + unzigzag(value);
  }
  return small(stream, value, limit, "a slot was never used");
}

static void read_allocation(trace_stream_t *stream, trace_hint_t hint, trace_operation_t *operation) {
  trace_codec_t *codec = &stream->codec;
  operation->size = size(stream, COLUMN_SIZES);
  if (hint == HINT_NEXT) {
    operation->slot = codec->slots++;
    if (operation->slot >= stream->thread->known.slots) {
      stream->wrong = "it uses more slots than it says";
    }
  } else if (hint == HINT_IMPLIED) {
    if (codec->freed_count == 0) {
      stream->wrong = "a slot is taken again that nobody freed";
      return;
    }
    operation->slot = codec_top(codec);
    codec_pop(codec);
  } else {
    operation->slot = codec->reused = told(stream, hint, codec->reused, codec->slots);
  }
  codec->allocated = operation->slot;
  if (operation->kind == TRACE_ALIGNED) {
    operation->other = small(stream, number(stream, COLUMN_EXTRAS), TRACE_ALIGNMENT_LOG_MAX + 1,
                             "an alignment is larger than any address");
  }
}

static void read_own(trace_stream_t *stream, trace_hint_t hint, trace_operation_t *operation) {
  trace_codec_t *codec = &stream->codec;
  if (hint == HINT_IMPLIED) {
    operation->slot = small(stream, codec->allocated, codec->slots, "a slot was never used");
  } else {
    operation->slot = told(stream, hint, codec->named, codec->slots);
  }
  codec->named = operation->slot;
  if (operation->kind == TRACE_FREE) {
    codec_push(codec, operation->slot);
  } else {
    operation->size = size(stream, COLUMN_SIZES);
  }
}

// Replaces an operation on something that the trace lacks. In a complete trace that is a mistake.
static void missing(trace_stream_t *stream, trace_operation_t *operation, const char *wrong) {
  operation->kind = TRACE_NOTHING;
  if (stream->trace->complete) {
    stream->wrong = wrong;
  }
}

static void read_foreign(trace_stream_t *stream, trace_hint_t hint, trace_operation_t *operation) {
  trace_codec_t *codec = &stream->codec;
  if (hint != HINT_NEAR) {
    codec->owner = small(stream, number(stream, COLUMN_SLOTS), TRACE_THREADS, "a block's owner cannot be");
  }
  codec->foreign = told(stream, hint, codec->foreign, UINT32_MAX);
  operation->other = codec->owner;
  operation->slot = codec->foreign;
  if (operation->kind == TRACE_REALLOC_FOREIGN) {
    operation->size = size(stream, COLUMN_SIZES);
  } else if (operation->kind == TRACE_TOUCHED) {
    operation->size = size(stream, COLUMN_EXTRAS);
  }
  const trace_thread_t *owner = trace_thread(stream->trace, stream->thread->known.process, operation->other);
  if (owner == NULL || operation->slot >= owner->slots) {
    missing(stream, operation, "a block's owner never had it");
  } else if (operation->kind != TRACE_TOUCHED && operation->other == stream->thread->known.thread) {
    stream->wrong = "a block of its own is said to be another's";
  }
}

static void read_wait(trace_stream_t *stream, trace_operation_t *operation) {
  trace_codec_t *codec = &stream->codec;
  operation->other = small(stream, number(stream, COLUMN_EXTRAS), TRACE_THREADS, "an awaited thread cannot be");
  uint64_t before = operation->other == codec->awaited ? codec->awaited_count : 0;
  operation->size = before + unzigzag(number(stream, COLUMN_EXTRAS));
  codec->awaited = operation->other;
  codec->awaited_count = operation->size;
  const trace_thread_t *awaited = trace_thread(stream->trace, stream->thread->known.process, operation->other);
  if (operation->other == stream->thread->known.thread) {
    stream->wrong = "it waits for itself";
  } else if (awaited == NULL || operation->size > awaited->operations) {
    if (!stream->trace->complete && awaited != NULL) {
      operation->size = awaited->operations; // the rest of that thread was cut off: waits for all of its operations
    } else {
      missing(stream, operation, "it waits for what its thread never does");
    }
  }
}

static void read_time(trace_stream_t *stream, unsigned mark) {
  column_t *times = &stream->columns[COLUMN_TIMES];
  uint64_t elapsed = 0;
  if (mark == MARK_LONG) {
    elapsed = number(stream, COLUMN_TIMES);
  } else if (mark != MARK_SHORT || times->at == times->end) {
    stream->wrong = "a time is missing";
  } else {
    elapsed = short_time(*times->at++);
  }
  if (__builtin_add_overflow(stream->codec.time_ns, elapsed, &stream->codec.time_ns)) {
    stream->wrong = "a time is beyond all time";
  }
}

static void read_operation(trace_stream_t *stream, trace_operation_t *operation) {
  unsigned code = *stream->columns[COLUMN_CODES].at++;
  trace_hint_t hint = code >> HINT_SHIFT & 3;
  if (code >> MARK_SHIFT != MARK_NONE) {
    read_time(stream, code >> MARK_SHIFT);
  }
  *operation = (trace_operation_t){.kind = code & 15, .time_ns = stream->codec.time_ns};
  switch (operation->kind) {
  case TRACE_MALLOC:
  case TRACE_CALLOC:
  case TRACE_ALIGNED:
    read_allocation(stream, hint, operation);
    break;
  case TRACE_FREE:
  case TRACE_REALLOC:
    read_own(stream, hint, operation);
    break;
  case TRACE_FREE_FOREIGN:
  case TRACE_REALLOC_FOREIGN:
  case TRACE_TOUCHED:
    read_foreign(stream, hint, operation);
    break;
  case TRACE_WAIT:
    read_wait(stream, operation);
    break;
  case TRACE_STACK:
    operation->other = small(stream, number(stream, COLUMN_EXTRAS), TRACE_STACKS_MOST, "a stack cannot be");
    break;
  case TRACE_THREAD_END:
    stream->over = true;
    if (stream->left > 1) {
      stream->wrong = "the thread goes on after its end";
    }
    break;
  default:
    stream->wrong = "an operation is of no known kind";
  }
}

long trace_stream_next(trace_stream_t *stream, trace_operation_t *operations, size_t capacity) {
  if (stream->error[0] != '\0') {
    return -1;
  }
  size_t count = 0;
  while (count < capacity) {
    if (stream->left == 0) {
      const char *wrong = stream->plain ? finish_chunk(stream) : NULL;
      if (wrong != NULL) {
        return damaged(stream, wrong);
      }
      if (!stream->more) {
        free_plain(stream);
        break;
      }
      wrong = next_chunk(stream);
      if (wrong != NULL) {
        return damaged(stream, wrong);
      }
    }
    read_operation(stream, &operations[count++]);
    stream->left--;
    if (stream->wrong != NULL) {
      return damaged(stream, stream->wrong);
    }
  }
  return (long)count;
}
