// The packer: takes items out of the queue and writes the trace. It runs with idle priority. A thread may not raise its
// own priority again, so the collector takes over once the programs have ended.
#include "collect.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

static pthread_t thread;
static trace_writer_t *writer;
static pack_t *pack;
static int trace_fd;
static _Atomic bool over; // the recording has ended
static bool last_seen;

static void pack_item(const item_t *item) {
  process_t *process = item->process;
  const uint64_t *words;
  int result = 0;
  switch (item->kind) {
  case ITEM_PROCESS:
    if (pack_process(pack, (long)item->parent, item->fork) != (long)process->number) {
      failure_note(errno, "a process of the trace");
      return;
    }
    result = trace_write_text(writer, TRACE_PROCESS, process->number, item->text, strlen(item->text));
    break;
  case ITEM_WORDS:
    words = queue_words(item);
    if (words == NULL) {
      failure_note(errno, "the file of waiting words");
      return;
    }
    result = pack_words(pack, process->number, item->thread, words, item->to - item->from);
    break;
  case ITEM_ADVANCE:
    result = pack_advance(pack, process->number, item->clock);
    break;
  case ITEM_TEXT:
    result = trace_write_text(writer, item->sort, process->number, item->text, strlen(item->text));
    break;
  case ITEM_PROCESS_END:
    result = pack_process_end(pack, process->number);
    break;
  case ITEM_LAST:
    break;
  }
  if (result != 0)
    failure_note(errno, "the trace");
}

static void forget_memory(process_t *process) {
  munmap(process->segment, SEGMENT_BYTES);
  free(process->taken_whole);
  free(process->buffers);
  process->segment = NULL;
  process->taken_whole = NULL;
  process->buffers = NULL;
}

// Packs items until the last one, or until `enough` is set.
static void run(const _Atomic bool *enough) {
  while (!atomic_load(enough)) {
    item_t item = queue_take();
    if (item.kind == ITEM_LAST) {
      last_seen = true;
      return;
    }
    if (failure().error == 0)
      pack_item(&item);
    if (item.kind == ITEM_PROCESS_END)
      forget_memory(item.process);
    queue_done(&item);
  }
}

static void *run_idly(void *unused) {
  struct sched_param none = {0};
  if (sched_setscheduler(0, SCHED_IDLE, &none) != 0)
    setpriority(PRIO_PROCESS, 0, 19);
  run(&over);
  return unused;
}

void packer_start(int fd, const char *info) {
  trace_fd = fd;
  writer = trace_writer_open(fd);
  pack = writer ? pack_open(writer, clock_ns()) : NULL;
  if (pack == NULL || trace_write_text(writer, TRACE_INFO, 0, info, strlen(info)) != 0)
    failure_note(errno, "the trace");
  if (pack != NULL && pthread_create(&thread, NULL, run_idly, NULL) == 0)
    return;
  fprintf(stderr, "hak-collect: cannot begin: %s\n", strerror(errno));
  exit(EXIT_FAILURE);
}

void packer_wait(process_t *first) {
  static const _Atomic bool never;
  atomic_store(&over, true);
  pthread_join(thread, NULL);
  if (!last_seen)
    run(&never);
  // Not earlier: a forked child may end before its parent's fork is packed, and its counts are incomplete until then.
  for (process_t *process = first; process != NULL; process = process->next)
    pack_counts(pack, process->number, &process->counts);
}

uint64_t packer_close(bool complete, const char *end) {
  if (trace_writer_close(writer, complete, end, strlen(end)) != 0)
    failure_note(errno, "the trace");
  pack_close(pack);
  struct stat file;
  return fstat(trace_fd, &file) == 0 ? (uint64_t)file.st_size : 0;
}
