/* synthetic FILE OPERATIONS THREADS LIVE FOREIGN MOST [large]: writes a trace of blocks with random lifetimes. Each
 * thread has at most LIVE blocks of up to MOST bytes; FOREIGN percent of frees are done by another thread. large: one
 * block in 1,000 has 1 MiB, a quarter of which is touched. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/write.h"

enum { LARGE = 1 << 20, LARGE_EVERY = 1000, STEP_NS = 40 };

typedef struct {
  uint32_t *live, *idle; /* slots */
  uint32_t live_count, idle_count, slots;
  uint32_t *far_slot, *far_thread; /* slots freed by others, free after far_done operations of far_thread */
  uint64_t *far_done;
  uint32_t far_count;
  uint64_t done;
} thread_state_t;

static trace_writer_t *writer;
static thread_state_t *threads;
static uint64_t state, now_ns;

static uint64_t draw(uint64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % below;
}

static void emit(uint32_t thread, trace_kind_t kind, uint64_t size, uint32_t slot, uint32_t other) {
  trace_operation_t o = {.size = size, .slot = slot, .other = other, .kind = (uint8_t)kind};
  o.time_ns = threads[thread].done % 32 == 0 ? now_ns : 0;
  if (trace_write_operation(writer, 0, thread, &o) != 0) {
    perror("synthetic");
    exit(1);
  }
  threads[thread].done++;
}

static void allocate(uint32_t thread, uint32_t most, int large) {
  thread_state_t *t = &threads[thread];
  uint32_t slot;
  if (t->idle_count > 0) {
    slot = t->idle[--t->idle_count];
  } else if (t->far_count > 0) {
    t->far_count--;
    slot = t->far_slot[t->far_count];
    emit(thread, TRACE_WAIT, t->far_done[t->far_count], 0, t->far_thread[t->far_count]);
  } else {
    slot = t->slots++;
  }
  uint64_t size = large && draw(LARGE_EVERY) == 0 ? LARGE : 1 + draw(most);
  emit(thread, TRACE_MALLOC, size, slot, 0);
  if (size == LARGE)
    emit(thread, TRACE_TOUCHED, LARGE / 4, slot, thread);
  t->live[t->live_count++] = slot;
}

static void release(uint32_t thread, uint32_t by) {
  thread_state_t *t = &threads[thread];
  uint32_t place = (uint32_t)draw(t->live_count), slot = t->live[place];
  t->live[place] = t->live[--t->live_count];
  if (by == thread) {
    emit(thread, TRACE_FREE, 0, slot, 0);
    t->idle[t->idle_count++] = slot;
    return;
  }
  emit(by, TRACE_WAIT, t->done, 0, thread);
  emit(by, TRACE_FREE_FOREIGN, 0, slot, thread);
  t->far_slot[t->far_count] = slot;
  t->far_thread[t->far_count] = by;
  t->far_done[t->far_count++] = threads[by].done;
}

int main(int argc, char **argv) {
  if (argc < 7)
    return 2;
  uint64_t operations = strtoull(argv[2], NULL, 10);
  uint32_t count = (uint32_t)atoi(argv[3]), live = (uint32_t)atoi(argv[4]);
  uint32_t foreign = (uint32_t)atoi(argv[5]), most = (uint32_t)atoi(argv[6]);
  int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666);
  writer = trace_writer_open(fd);
  threads = calloc(count, sizeof *threads);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t **lists[] = {&threads[i].live, &threads[i].idle, &threads[i].far_slot, &threads[i].far_thread};
    for (size_t list = 0; list < sizeof lists / sizeof *lists; list++)
      *lists[list] = calloc(2 * live + 2, sizeof(uint32_t));
    threads[i].far_done = calloc(2 * live + 2, sizeof(uint64_t));
  }
  const char *about = "{\"command\": [\"true\"], \"cwd\": \"/\", \"environment\": {}}";
  trace_write_text(writer, TRACE_INFO, 0, about, strlen(about));
  for (uint64_t i = 0; i < operations; i++) {
    uint32_t thread = (uint32_t)draw(count);
    thread_state_t *t = &threads[thread];
    now_ns += STEP_NS / count + 1;
    if (t->live_count == 0 || (t->live_count < live && draw(100) < 52))
      allocate(thread, most, argc > 7);
    else
      release(thread, draw(100) < foreign ? (uint32_t)draw(count) : thread);
  }
  for (uint32_t i = 0; i < count; i++)
    emit(i, TRACE_THREAD_END, 0, 0, 0);
  const char *end = "{\"processes\": []}";
  return trace_writer_close(writer, true, end, strlen(end)) == 0 ? 0 : 1;
}
