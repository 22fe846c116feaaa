// The queue between collector and packer. Items point into the shared memory, up to PENDING_MOST_WORDS. Further words
// go to an unnamed file, so that the program gets their buffers back.
#include "collect.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PENDING_MOST_WORDS (1u << 18) // 2 MiB, so that the buffers in use stay in the processor's caches
#define SPILL_STEP_BYTES (16u << 20)  // room in the file is allocated ahead: a third less work than page by page

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static item_t *items; // a ring
static size_t capacity, first, count;
static size_t pending_words;                          // in the shared memory
static int spill_fd = -1;                             // no lock: only the collector writes, only the packer reads
static uint64_t spill_end, spill_room, spill_pending; // bytes; bytes; items
static uint64_t words[SEGMENT_BUFFER_WORDS];
static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER; // may be taken while `lock` is held
static failure_t first_failure;

void failure_note(int error, const char *what) {
  pthread_mutex_lock(&failure_lock);
  if (first_failure.error == 0)
    first_failure = (failure_t){error ? error : EIO, what};
  pthread_mutex_unlock(&failure_lock);
}

failure_t failure(void) {
  pthread_mutex_lock(&failure_lock);
  failure_t now = first_failure;
  pthread_mutex_unlock(&failure_lock);
  return now;
}

bool queue_open(const char *beside) {
  char *path;
  if (asprintf(&path, "%s.spill.XXXXXX", beside) < 0)
    return false;
  spill_fd = mkostemp(path, O_CLOEXEC);
  if (spill_fd >= 0)
    unlink(path);
  free(path);
  return spill_fd >= 0;
}

static void buffer_free(process_t *process, uint32_t index) {
  segment_t *segment = process->segment;
  buffer_t *buffer = &process->buffers[index];
  memset(segment_buffer(segment, index), 0, buffer->taken * sizeof(uint64_t));
  *buffer = (buffer_t){.pages = buffer->pages};
  atomic_store(&segment->of[index].owner, 0);
  uint64_t head = atomic_load(&segment->free_head), next;
  do {
    atomic_store_explicit(&segment->next[index], (uint32_t)head, memory_order_relaxed);
    next = ((head >> 32) + 1) << 32 | (index + 1);
  } while (!atomic_compare_exchange_weak(&segment->free_head, &head, next));
}

static bool spill(item_t *item) {
  const char *from = (const char *)(segment_buffer(item->process->segment, item->buffer) + item->from);
  size_t bytes = (item->to - item->from) * sizeof(uint64_t), written = 0;
  if (spill_end + bytes > spill_room) {
    // The result is ignored: if there is no room, the write fails.
    fallocate(spill_fd, FALLOC_FL_KEEP_SIZE, (off_t)spill_room, SPILL_STEP_BYTES);
    spill_room += SPILL_STEP_BYTES;
  }
  while (written < bytes) {
    ssize_t now = pwrite(spill_fd, from + written, bytes - written, (off_t)(spill_end + written));
    if (now < 0 && errno == EINTR)
      continue;
    if (now <= 0) {
      failure_note(now < 0 ? errno : ENOSPC, "the file of waiting words");
      return false;
    }
    written += (size_t)now;
  }
  item->spilled = (int64_t)spill_end;
  spill_end += bytes;
  return true;
}

static bool grow(void) {
  size_t larger = capacity ? capacity * 2 : 1024;
  item_t *moved = malloc(larger * sizeof *moved);
  if (moved == NULL)
    return false;
  for (size_t i = 0; i < count; i++)
    moved[i] = items[(first + i) % capacity];
  free(items);
  items = moved;
  capacity = larger;
  first = 0;
  return true;
}

void queue_put(item_t item) {
  item.spilled = -1;
  pthread_mutex_lock(&lock);
  if (spill_pending == 0 && spill_end != 0) {
    spill_end = spill_room = 0;
    if (ftruncate(spill_fd, 0) != 0)
      failure_note(errno, "the file of waiting words");
  }
  bool full = item.kind == ITEM_WORDS && pending_words + (item.to - item.from) > PENDING_MOST_WORDS;
  pthread_mutex_unlock(&lock);
  if (full && failure().error == 0)
    spill(&item);
  pthread_mutex_lock(&lock);
  if (count == capacity && !grow()) {
    pthread_mutex_unlock(&lock);
    failure_note(ENOMEM, "the queue of waiting words");
    free(item.text);
    return;
  }
  if (item.kind == ITEM_WORDS && item.spilled < 0) {
    pending_words += item.to - item.from;
    item.process->buffers[item.buffer].pending++;
  }
  spill_pending += item.spilled >= 0;
  items[(first + count++) % capacity] = item;
  pthread_cond_signal(&filled);
  pthread_mutex_unlock(&lock);
}

void queue_release(process_t *process, uint32_t index) {
  pthread_mutex_lock(&lock);
  process->buffers[index].whole = true;
  bool unused = process->buffers[index].pending == 0;
  pthread_mutex_unlock(&lock);
  if (unused)
    buffer_free(process, index);
}

item_t queue_take(void) {
  pthread_mutex_lock(&lock);
  while (count == 0)
    pthread_cond_wait(&filled, &lock);
  item_t item = items[first];
  first = (first + 1) % capacity;
  count--;
  pthread_mutex_unlock(&lock);
  return item;
}

const uint64_t *queue_words(const item_t *item) {
  if (item->spilled < 0)
    return segment_buffer(item->process->segment, item->buffer) + item->from;
  size_t bytes = (item->to - item->from) * sizeof(uint64_t), got = 0;
  while (got < bytes) {
    ssize_t now = pread(spill_fd, (char *)words + got, bytes - got, item->spilled + (off_t)got);
    if (now < 0 && errno == EINTR)
      continue;
    if (now <= 0) {
      errno = now < 0 ? errno : EIO;
      return NULL;
    }
    got += (size_t)now;
  }
  return words;
}

void queue_done(const item_t *item) {
  free(item->text);
  if (item->kind != ITEM_WORDS)
    return;
  pthread_mutex_lock(&lock);
  bool unused = false;
  if (item->spilled >= 0) {
    spill_pending--;
  } else {
    pending_words -= item->to - item->from;
    buffer_t *buffer = &item->process->buffers[item->buffer];
    unused = --buffer->pending == 0 && buffer->whole;
  }
  pthread_mutex_unlock(&lock);
  if (unused)
    buffer_free(item->process, item->buffer);
}
