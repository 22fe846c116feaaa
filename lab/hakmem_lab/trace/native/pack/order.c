// Orders the words of all threads. A word's turn comes at the end time of its part; the first word of a part has the
// time of its mark. So when a word has its turn, every other word that may have happened before or after it is in the
// current part of its thread:
//   - a word that cannot come yet (malloc of a live block, free of none) waits for another thread's word at the same
//     address: that thread is advanced to this word;
//   - where several threads name the address, rival.c decides which is first;
//   - a word still missing at the end of the part was lost, or is older than the recording.
#include <stdlib.h>

#include "parts.h"

#define WAITERS_MOST 64 // longest chain of threads that wait for each other

static bool is_mark(uint64_t word) {
  return pack_code(word) == RAW_SIZE_LIMIT + RAW_TIME;
}

static size_t next_mark(const pack_thread_t *thread, size_t at) {
  while (at < thread->end && !is_mark(thread->words[at])) {
    at += pack_record_words(thread->words[at]);
  }
  return at;
}

// Reads marks. A clock that steps back counts as standing still. A mark later than the collector's clock was written
// after that clock was read, so its words wait. If it was there already at the previous advance, it is damaged and
// ignored.
static void pass_marks(const pack_process_t *process, pack_thread_t *thread) {
  for (; thread->at < thread->end && is_mark(thread->words[thread->at]); thread->at++) {
    uint64_t field = pack_field(thread->words[thread->at]);
    if (field > process->clock && thread->at >= thread->settled) {
      return;
    }
    if (field <= process->clock) {
      thread->lasted = field > thread->mark ? field - thread->mark : 0;
      thread->mark = field > thread->mark ? field : thread->mark;
    }
    thread->time_ns = (uint64_t)((double)thread->mark * process->pack->ns_per_clock);
    thread->marked = thread->at + 1;
  }
}

static void set_times(const pack_process_t *process, pack_thread_t *thread) {
  uint64_t slack = process->pack->slack;
  uint64_t high = thread->stop < thread->end ? pack_field(thread->words[thread->stop]) : UINT64_MAX;
  thread->ripe = high < process->clock && process->clock - high >= slack;
  if (!thread->ripe) {
    if (thread->settled > thread->at && thread->stop > thread->settled) {
      thread->stop = thread->settled;
    }
    thread->ripe = thread->settled >= thread->stop;
    high = process->clock == UINT64_MAX ? thread->mark + thread->lasted : process->clock;
  }
  thread->high = high > thread->mark ? high : thread->mark;
  thread->deadline = process->clock == UINT64_MAX && thread->stop == thread->end ? UINT64_MAX : thread->high + slack;
  thread->key = thread->at == thread->marked ? thread->mark : thread->high;
}

bool pack_next_part(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  pass_marks(process, thread);
  thread->stop = next_mark(thread, thread->at);
  if (thread->stop == thread->at) {
    return false;
  }
  set_times(process, thread);
  if (process->tags) {
    pack_tags_add(process, number);
  }
  return true;
}

static void push(pack_process_t *process, uint32_t number) {
  pack_turn_t *turns = process->turns;
  uint64_t key = process->threads[number]->key;
  size_t at = process->turns_count++;
  for (; at > 0 && turns[(at - 1) / 2].key > key; at = (at - 1) / 2) {
    turns[at] = turns[(at - 1) / 2];
  }
  turns[at] = (pack_turn_t){key, number};
}

static pack_turn_t pop(pack_process_t *process) {
  pack_turn_t *turns = process->turns;
  pack_turn_t first = turns[0];
  pack_turn_t last = turns[--process->turns_count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < process->turns_count; at = child) {
    child += child + 1 < process->turns_count && turns[child + 1].key < turns[child].key;
    if (turns[child].key >= last.key) {
      break;
    }
    turns[at] = turns[child];
  }
  turns[at] = last;
  return first;
}

static int step(pack_process_t *process, uint32_t number, bool forced);

// Advances another thread up to and including a word, before the next word of this one. PACK_BLOCKED: the other thread
// waits itself.
static int bring(pack_process_t *process, uint32_t number, pack_place_t place) {
  pack_thread_t *other = process->threads[place.thread];
  if (process->depth == WAITERS_MOST) {
    return PACK_BLOCKED;
  }
  process->threads[number]->waiting = true;
  process->depth++;
  int status = PACK_DONE;
  while (status == PACK_DONE && !other->ended && other->at <= place.at) {
    if (other->at < other->stop || pack_next_part(process, place.thread)) {
      status = other->at <= place.at ? step(process, place.thread, false) : PACK_DONE;
    } else {
      break;
    }
  }
  process->depth--;
  process->threads[number]->waiting = false;
  return status;
}

// Applies the next word of this thread, after the words of other threads that must come before it.
static int step(pack_process_t *process, uint32_t number, bool forced) {
  pack_thread_t *thread = process->threads[number];
  uint64_t word = thread->words[thread->at];
  pack_place_t place;
  pack_claim_t claim = pack_claim(word);
  pack_tag_t *tag = process->tags && claim != PACK_NEITHER ? pack_tag(process, pack_field(word), claim) : NULL;
  if (tag && tag->other != 0 && pack_rival(process, number, tag, &place) && bring(process, number, place) < 0) {
    return -1;
  }
  int status = pack_apply(process, number, false);
  if (status == PACK_BLOCKED && tag && pack_provider(process, number, &place)) {
    status = bring(process, number, place);
    status = status == PACK_DONE ? pack_apply(process, number, false) : status;
  }
  if (status == PACK_BLOCKED && forced) {
    status = pack_apply(process, number, true);
  }
  if (status == PACK_DONE && tag) {
    pack_tag_drop(tag);
  }
  return status;
}

// Continues one thread until another one has its turn.
static int go_on(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  uint64_t limit = process->turns_count ? process->turns[0].key : UINT64_MAX;
  while (!thread->ended && (thread->at < thread->stop || pack_next_part(process, number))) {
    if (!thread->ripe) {
      return 0;
    }
    if (thread->key > limit) {
      push(process, number);
      return 0;
    }
    process->now = thread->key > process->now ? thread->key : process->now;
    int status = step(process, number, thread->key >= thread->deadline || !process->tags);
    if (status < 0) {
      return -1;
    }
    if (status == PACK_DONE) {
      thread->key = thread->key > thread->high ? thread->key : thread->high;
      if (thread->key <= limit && pack_apply_plain(process, number) != 0) {
        return -1;
      }
    } else {
      thread->key = thread->key < thread->high ? thread->high : thread->deadline;
    }
  }
  return 0;
}

int pack_list(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  if (thread->listed || thread->at == thread->end) {
    return 0;
  }
  if (process->busy_count == process->busy_capacity) {
    size_t capacity = process->busy_capacity ? process->busy_capacity * 2 : 16;
    uint32_t *busy = realloc(process->busy, capacity * sizeof *busy);
    process->busy = busy ? busy : process->busy;
    pack_turn_t *turns = realloc(process->turns, capacity * sizeof *turns);
    process->turns = turns ? turns : process->turns;
    if (!busy || !turns) {
      return -1;
    }
    process->busy_capacity = capacity;
  }
  process->busy[process->busy_count++] = number;
  thread->listed = true;
  return 0;
}

static int begin(pack_process_t *process, uint64_t clock) {
  process->clock = clock > process->clock ? clock : process->clock;
  process->turns_count = 0;
  if (pack_tags_open(process, process->busy_count) != 0) {
    return -1;
  }
  for (size_t i = 0; i < process->busy_count; i++) {
    pack_thread_t *thread = process->threads[process->busy[i]];
    thread->settled = clock == UINT64_MAX ? thread->end : thread->settled;
    if (pack_next_part(process, process->busy[i]) && thread->ripe) {
      push(process, process->busy[i]);
    }
  }
  return 0;
}

static void finish(pack_process_t *process) {
  size_t left = 0;
  for (size_t i = 0; i < process->busy_count; i++) {
    uint32_t number = process->busy[i];
    pack_thread_t *thread = process->threads[number];
    if (thread->ended) {
      pack_thread_shrink(process, number);
      continue;
    }
    pack_words_passed(thread);
    thread->settled = thread->end;
    thread->listed = thread->end > 0;
    process->busy[left] = number;
    left += thread->listed;
  }
  process->busy_count = left;
}

int pack_order(pack_process_t *process, uint64_t clock) {
  if (begin(process, clock) != 0) {
    return -1;
  }
  while (process->turns_count > 0) {
    pack_turn_t turn = pop(process);
    pack_thread_t *thread = process->threads[turn.thread];
    // The thread may have been advanced meanwhile for another one.
    bool goes = !thread->ended && (thread->at < thread->stop || pack_next_part(process, turn.thread)) && thread->ripe;
    if (goes && thread->key > turn.key) {
      push(process, turn.thread);
    } else if (goes && go_on(process, turn.thread) != 0) {
      return -1;
    }
  }
  finish(process);
  return 0;
}
