// Processes and their threads, and the words that they are given.
#include "pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define SLACK_NS 4000 // largest difference between the clocks of two cores
#define PATIENCE 4    // a fork not seen after this many advances of the parent was lost

pack_t *pack_open(trace_writer_t *writer, double ns_per_clock) {
  pack_t *pack = calloc(1, sizeof *pack);
  if (pack) {
    pack->writer = writer;
    pack->ns_per_clock = ns_per_clock;
    pack->slack = (uint64_t)(SLACK_NS / ns_per_clock);
  }
  return pack;
}

static pack_process_t *process_at(const pack_t *pack, uint32_t number) {
  if (number >= pack->process_count) {
    errno = EINVAL;
    return NULL;
  }
  return pack->processes[number];
}

long pack_process(pack_t *pack, long parent, uint64_t fork) {
  if (pack->process_count == pack->process_capacity) {
    size_t capacity = pack->process_capacity ? pack->process_capacity * 2 : 16;
    pack_process_t **grown = realloc(pack->processes, capacity * sizeof(pack_process_t *));
    if (!grown) {
      return -1;
    }
    pack->processes = grown;
    pack->process_capacity = capacity;
  }
  pack_process_t *process = calloc(1, sizeof *process);
  if (!process || pack_table_open(&process->table) != 0) {
    free(process);
    return -1;
  }
  process->pack = pack;
  process->number = (uint32_t)pack->process_count;
  process->fork = fork;
  process->parent = fork != 0 && parent >= 0 && (size_t)parent < pack->process_count ? parent : -1;
  process->patience = PATIENCE;
  pack->waiting_children += process->parent >= 0;
  pack->processes[pack->process_count++] = process;
  return (long)process->number;
}

static bool is_sound(uint64_t word) {
  uint32_t code = pack_code(word);
  uint64_t field = word >> RAW_CODE_BITS;
  if (code > RAW_SIZE_LIMIT + RAW_STACK) {
    return false;
  }
  bool may_be_zero = code == RAW_SIZE_LIMIT + RAW_TIME || code >= RAW_SIZE_LIMIT + RAW_REALLOC_FROM;
  return field != 0 || may_be_zero;
}

// Appends the valid words. The first word of a record whose second has not come yet waits in the thread.
static int append_sound(pack_process_t *process, pack_thread_t *thread, const uint64_t *words, size_t count) {
  size_t begin = 0;
  size_t at = 0;
  while (at < count && words[at] != 0) {
    size_t length = pack_record_words(words[at]);
    bool sound = is_sound(words[at]);
    if (sound && length == 2 && at + 1 == count) {
      thread->half = words[at];
      break;
    }
    if (sound && (length == 1 || words[at + 1] != 0)) {
      at += length;
      continue;
    }
    process->counts.damaged++;
    if (pack_words_append(thread, words + begin, at - begin) != 0) {
      return -1;
    }
    begin = at += sound || at + length > count ? 1 : length;
  }
  process->any_word |= at > 0;
  return pack_words_append(thread, words + begin, at - begin);
}

int pack_words(pack_t *pack, uint32_t number, uint32_t thread_number, const uint64_t *words, size_t count) {
  pack_process_t *process = process_at(pack, number);
  pack_thread_t *thread = process ? pack_thread_at(process, thread_number) : NULL;
  if (!thread || process->closed) {
    return -1;
  }
  if (thread->ended) {
    process->counts.damaged += count;
    return 0;
  }
  if (thread->half != 0 && count > 0) {
    uint64_t record[] = {thread->half, words[0]};
    thread->half = 0;
    if (append_sound(process, thread, record, 2) != 0) {
      return -1;
    }
    words++;
    count--;
  }
  return append_sound(process, thread, words, count) != 0 ? -1 : pack_list(process, thread_number);
}

static void inherit_nothing_more(pack_process_t *child) {
  child->pack->waiting_children -= child->parent >= 0;
  child->parent = -1;
}

// Gives a child its inheritance, for which its words wait. *ready: the words can be ordered.
static int inherit(pack_process_t *process, bool *ready) {
  *ready = process->parent < 0 || !process->any_word;
  if (*ready) {
    return 0;
  }
  bool found = pack_inheritance(process);
  if (found || process->patience == 0 || process->pack->processes[process->parent]->closed) {
    int status = found ? pack_inherit(process) : 0;
    inherit_nothing_more(process);
    *ready = true;
    return status;
  }
  return 0;
}

static int finish(pack_process_t *process) {
  int status = process->any_word ? pack_order(process, UINT64_MAX) : 0;
  for (size_t i = 0; i < process->thread_count; i++) {
    if (process->threads[i] && !process->threads[i]->ended) {
      pack_thread_release(process->threads[i]);
    }
    free(process->threads[i]);
  }
  free(process->threads);
  free(process->busy);
  free(process->turns);
  free(process->tags);
  process->counts.live_blocks = process->table.count;
  pack_table_close(&process->table);
  process->threads = NULL;
  process->busy = NULL;
  process->turns = NULL;
  process->tags = NULL;
  process->thread_count = process->busy_count = 0;
  process->closed = true;
  inherit_nothing_more(process);
  return status;
}

// Serves the children that wait for a fork of this process.
static int serve_children(pack_process_t *parent) {
  pack_t *pack = parent->pack;
  for (size_t i = parent->number + 1; i < pack->process_count && pack->waiting_children > 0; i++) {
    pack_process_t *child = pack->processes[i];
    if (child->parent != (long)parent->number || child->closed) {
      continue;
    }
    child->patience -= child->patience > 0;
    bool ready;
    if (inherit(child, &ready) != 0 || (ready && child->ending && pack_process_end(pack, child->number) != 0)) {
      return -1;
    }
  }
  return 0;
}

int pack_advance(pack_t *pack, uint32_t number, uint64_t clock) {
  pack_process_t *process = process_at(pack, number);
  bool ready;
  if (!process || process->closed || inherit(process, &ready) != 0) {
    return -1;
  }
  if (!ready) {
    return 0;
  }
  return pack_order(process, clock) != 0 || serve_children(process) != 0 ? -1 : 0;
}

int pack_process_end(pack_t *pack, uint32_t number) {
  pack_process_t *process = process_at(pack, number);
  bool ready;
  if (!process || inherit(process, &ready) != 0) {
    return -1;
  }
  if (process->closed) {
    return 0;
  }
  process->ending = true;
  if (!ready) {
    return 0;
  }
  int status = finish(process);
  status = trace_write_process_end(pack->writer, number) != 0 ? -1 : status;
  return serve_children(process) != 0 ? -1 : status;
}

void pack_counts(const pack_t *pack, uint32_t number, pack_counts_t *counts) {
  *counts = (pack_counts_t){0};
  if (number < pack->process_count) {
    *counts = pack->processes[number]->counts;
    const pack_process_t *process = pack->processes[number];
    counts->live_blocks = process->closed ? counts->live_blocks : process->table.count;
    counts->operations = counts->allocations + counts->frees + counts->reallocations;
  }
}

void pack_close(pack_t *pack) {
  for (size_t i = 0; i < pack->process_count; i++) {
    pack_process_t *process = pack->processes[i];
    if (!process->closed) {
      process->any_word = false; // drops the remaining words
      finish(process);
    }
    free(process);
  }
  free(pack->processes);
  pack_inheritances_close(pack);
  free(pack);
}
