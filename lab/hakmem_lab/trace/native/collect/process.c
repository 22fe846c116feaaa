// Takes the words of one process out of its segment: while it runs, and all remaining ones when it has ended.
#include "collect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOW_NS 12000 // a thread that takes longer for 64 words has time for more marks
#define THREADS_MOST (1u << 20)
#define HEADER_PAGES 6 // pages of a segment's header that a program touches

process_t *process_new(pid_t pid, uint32_t number, int *descriptor) {
  process_t *process = calloc(1, sizeof *process);
  buffer_t *buffers = calloc(SEGMENT_BUFFERS, sizeof *buffers);
  int fd = memfd_create("hak-record", MFD_CLOEXEC);
  void *memory = MAP_FAILED;
  if (process != NULL && buffers != NULL && fd >= 0 && ftruncate(fd, SEGMENT_BYTES) == 0)
    memory = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    int error = errno;
    if (fd >= 0)
      close(fd);
    free(process);
    free(buffers);
    errno = error;
    return NULL;
  }
  segment_t *segment = memory;
  segment->version = SEGMENT_VERSION;
  segment->process = number;
  segment->origin = segment_clock();
  segment->slow_ticks = (uint64_t)(SLOW_NS / clock_ns());
  *process = (process_t){
      .buffers = buffers, .number = number, .pid = pid, .segment = segment, .statm = -1, .own_pages = HEADER_PAGES};
  process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  *descriptor = fd;
  return process;
}

// Number of words in a buffer whose owner may be writing. The owner writes them in order, and all later ones are zero.
// Of a pair it writes the second word first.
static uint32_t filled_words(const uint64_t *words, uint32_t from) {
  uint32_t low = from, high = SEGMENT_BUFFER_WORDS;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (atomic_load_explicit((const _Atomic uint64_t *)&words[middle], memory_order_acquire) != 0)
      low = middle + 1;
    else
      high = middle;
  }
  if (low >= from + 2 && atomic_load_explicit((const _Atomic uint64_t *)&words[low - 2], memory_order_acquire) == 0)
    low -= 2;
  return low;
}

static bool thread_room(process_t *process, uint32_t thread) {
  if (thread < process->thread_capacity)
    return true;
  uint32_t larger = process->thread_capacity ? process->thread_capacity : 16;
  while (larger <= thread)
    larger *= 2;
  uint32_t *moved = thread < THREADS_MOST ? realloc(process->taken_whole, larger * sizeof *moved) : NULL;
  if (moved == NULL) {
    failure_note(ENOMEM, "the threads of a process");
    return false;
  }
  memset(moved + process->thread_capacity, 0, (larger - process->thread_capacity) * sizeof *moved);
  process->taken_whole = moved;
  process->thread_capacity = larger;
  return true;
}

// Takes the new words of this buffer. whole: its owner has finished it.
static void take_buffer(process_t *process, uint32_t index, uint32_t thread, bool whole) {
  buffer_t *buffer = &process->buffers[index];
  uint32_t from = buffer->taken, to = filled_words(segment_buffer(process->segment, index), from);
  if (to > from) {
    buffer->taken = to;
    uint16_t pages = (uint16_t)((to * sizeof(uint64_t) + 4095) / 4096);
    if (pages > buffer->pages) {
      process->own_pages += pages - buffer->pages;
      buffer->pages = pages;
    }
    queue_put(
        (item_t){.kind = ITEM_WORDS, .process = process, .thread = thread, .buffer = index, .from = from, .to = to});
  }
  if (whole) {
    process->taken_whole[thread]++;
    queue_release(process, index);
  }
}

static void take_queue(process_t *process) {
  segment_t *segment = process->segment;
  for (;;) {
    _Atomic uint32_t *place = &segment->queue[process->queue_head % SEGMENT_QUEUE];
    uint32_t index = atomic_load_explicit(place, memory_order_acquire) - 1;
    if (index >= SEGMENT_BUFFERS)
      return;
    atomic_store_explicit(place, 0, memory_order_relaxed);
    process->queue_head++;
    uint32_t thread = atomic_load_explicit(&segment->of[index].owner, memory_order_acquire) - 1;
    if (thread_room(process, thread))
      take_buffer(process, index, thread, true);
  }
}

static uint32_t used_buffers(const segment_t *segment) {
  uint32_t fresh = atomic_load(&segment->fresh);
  return fresh < SEGMENT_BUFFERS ? fresh : SEGMENT_BUFFERS;
}

// All words from before `now` are in the segment when this begins. If no thread begins a further buffer meanwhile, all
// of them are in the queue when this ends.
bool process_take(process_t *process) {
  segment_t *segment = process->segment;
  uint64_t now = clock_since(segment->origin);
  uint32_t head = process->queue_head;
  take_queue(process);
  bool all = true, news = process->queue_head != head;
  for (uint32_t index = 0, used = used_buffers(segment); index < used; index++) {
    uint32_t owner = atomic_load_explicit(&segment->of[index].owner, memory_order_acquire);
    if (owner == 0 || !thread_room(process, owner - 1))
      continue;
    uint32_t order = atomic_load_explicit(&segment->of[index].order, memory_order_relaxed);
    all &= order <= process->taken_whole[owner - 1];
    if (order != process->taken_whole[owner - 1])
      continue;
    uint32_t before = process->buffers[index].taken;
    take_buffer(process, index, owner - 1, false);
    news |= process->buffers[index].taken != before;
  }
  process->behind |= news;
  if (!all)
    return news;
  process->advanced = now + 1;
  if (process->behind)
    queue_put((item_t){.kind = ITEM_ADVANCE, .process = process, .clock = now});
  process->behind = false;
  return news;
}

static int by_thread_and_order(const void *left, const void *right, void *uses) {
  const segment_use_t *of = uses, *a = &of[*(const uint32_t *)left], *b = &of[*(const uint32_t *)right];
  if (a->owner != b->owner)
    return a->owner < b->owner ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

// Whether a buffer still has words to take. Buffers that were taken to their end keep their owner until they are
// packed, but do not count.
static bool is_left(process_t *process, uint32_t index) {
  const segment_use_t *use = &process->segment->of[index];
  uint32_t owner = atomic_load(&use->owner);
  return owner != 0 && thread_room(process, owner - 1) && atomic_load(&use->order) >= process->taken_whole[owner - 1];
}

void process_take_all(process_t *process) {
  segment_t *segment = process->segment;
  uint32_t left[SEGMENT_BUFFERS], count = 0;
  take_queue(process);
  for (uint32_t index = 0, used = used_buffers(segment); index < used; index++)
    if (is_left(process, index))
      left[count++] = index;
  qsort_r(left, count, sizeof *left, by_thread_and_order, segment->of);
  for (uint32_t i = 0; i < count; i++) {
    take_buffer(process, left[i], atomic_load(&segment->of[left[i]].owner) - 1, true);
  }
}

void process_stop(process_t *process) {
  atomic_store(&process->segment->stop, 1);
}
