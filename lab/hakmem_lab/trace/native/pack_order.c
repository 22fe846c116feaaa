// Whose word comes next. What lies between two marks of a thread (a part) happened between these times; within it a
// word's time is guessed as if the words were equally spaced. The thread whose next word has the smallest time goes on.
// A word that cannot come yet (malloc of a live block, free of none) is by the order of an address in want of another
// thread's word:
//   - if that one may have happened by now, its thread is taken up to it first;
//   - else the waiting thread is put off, by more each time, up to the end of its part;
//   - if it has not come then, it was lost, or is older than the recording.
#include <errno.h>
#include <stdlib.h>

#include "pack_parts.h"

#define WAITERS_MOST 64 // threads that wait for each other in a row

static uint64_t word_field(uint64_t word) {
  return word >> RAW_CODE_BITS;
}

static bool is_mark(uint64_t word) {
  return pack_code(word) == RAW_SIZE_LIMIT + RAW_TIME;
}

static size_t next_mark(const pack_thread_t *thread, size_t at) {
  while (at < thread->end && !is_mark(thread->words[at])) {
    at += pack_record_words(thread->words[at]);
  }
  return at;
}

static void pass_marks(const pack_process_t *process, pack_thread_t *thread) {
  for (; thread->at < thread->end && is_mark(thread->words[thread->at]); thread->at++) {
    uint64_t field = word_field(thread->words[thread->at]);
    thread->mark = field > thread->mark && field <= process->clock ? field : thread->mark;
    thread->time_ns = (uint64_t)((double)thread->mark * process->pack->ns_per_clock);
  }
}

// The next part, if all that matters for its order is at hand. early: as much as there is, in any case.
static bool next_part(const pack_process_t *process, pack_thread_t *thread, bool early) {
  if (thread->at < thread->stop) {
    return true;
  }
  size_t first = thread->at;
  while (first < thread->end && is_mark(thread->words[first])) {
    first++;
  }
  size_t stop = next_mark(thread, first);
  if (stop == first) {
    return false;
  }
  uint64_t high = stop < thread->end ? word_field(thread->words[stop]) : UINT64_MAX;
  uint64_t slack = (uint64_t)process->pack->slack;
  bool ripe = high < process->clock && process->clock - high >= slack;
  if (!ripe) {
    high = process->clock;
    if (!early && stop > thread->settled && thread->settled > first) {
      stop = thread->settled;
    } else if (!early && thread->settled <= first) {
      return false;
    }
  }
  pass_marks(process, thread);
  thread->begin = thread->at;
  thread->stop = stop;
  high = high > thread->mark ? high : thread->mark;
  thread->deadline = high == UINT64_MAX ? high : high + slack;
  thread->low = (double)thread->mark;
  double pace = (double)(high - thread->mark) / (double)(stop - thread->begin);
  thread->step = ripe || pace < thread->step ? pace : thread->step;
  thread->waiting = false;
  return true;
}

static double guess(const pack_thread_t *thread) {
  return thread->low + thread->step * (double)(thread->at - thread->begin);
}

static void push(pack_process_t *process, uint32_t number, double key) {
  pack_turn_t *turns = process->turns;
  size_t at = process->turns_count++;
  for (; at > 0 && turns[(at - 1) / 2].key > key; at = (at - 1) / 2) {
    turns[at] = turns[(at - 1) / 2];
  }
  turns[at] = (pack_turn_t){key, number};
}

static uint32_t pop(pack_process_t *process) {
  pack_turn_t *turns = process->turns;
  uint32_t number = turns[0].thread;
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
  return number;
}

static bool gives_up(uint32_t code) {
  return code == RAW_SIZE_LIMIT + RAW_FREE || code == RAW_SIZE_LIMIT + RAW_REALLOC_FROM;
}

static bool takes(uint32_t code) {
  return code < RAW_SIZE_LIMIT || code == RAW_SIZE_LIMIT + RAW_LARGE || code == RAW_SIZE_LIMIT + RAW_CALLOC ||
         code == RAW_SIZE_LIMIT + RAW_ALIGNED || code == RAW_SIZE_LIMIT + RAW_REALLOC_TO;
}

// Where this thread takes, or gives up, the address next, by now; SIZE_MAX: nowhere, or the other comes first.
static size_t find(const pack_process_t *process, const pack_thread_t *thread, uint64_t address, bool take,
                   uint64_t *mark) {
  double limit = process->now + process->pack->slack;
  *mark = thread->mark;
  for (size_t at = thread->at; at < thread->end && (double)*mark <= limit; at += pack_record_words(thread->words[at])) {
    uint32_t code = pack_code(thread->words[at]);
    if (code == RAW_SIZE_LIMIT + RAW_TIME) {
      *mark = word_field(thread->words[at]) > *mark ? word_field(thread->words[at]) : *mark;
    } else if (word_field(thread->words[at]) == address && (takes(code) || gives_up(code))) {
      return takes(code) == take ? at : SIZE_MAX;
    }
  }
  return SIZE_MAX;
}

static int bring(pack_process_t *process, uint32_t number);

// Takes a thread up to and including the word at `last`. PACK_BLOCKED: it waits itself.
static int go_to(pack_process_t *process, pack_thread_t *thread, uint32_t number, size_t last) {
  while (!thread->ended && thread->at <= last && next_part(process, thread, true)) {
    if (thread->at > last) {
      break;
    }
    int status = pack_apply(process, number, false);
    if (status == PACK_BLOCKED) {
      status = bring(process, number);
    }
    if (status != PACK_DONE) {
      return status;
    }
  }
  return PACK_DONE;
}

// Does what the next word of this thread waits for, if it may have happened by now.
static int bring(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  uint64_t word = thread->words[thread->at];
  pack_thread_t *best = NULL;
  uint32_t best_number = 0;
  size_t best_at = 0;
  uint64_t best_mark = UINT64_MAX;
  if (process->depth == WAITERS_MOST) {
    return PACK_BLOCKED;
  }
  thread->waiting = true;
  for (size_t i = 0; i < process->busy_count; i++) {
    pack_thread_t *other = process->threads[process->busy[i]];
    uint64_t mark;
    size_t at = other->waiting ? SIZE_MAX : find(process, other, word_field(word), gives_up(pack_code(word)), &mark);
    if (at != SIZE_MAX && mark < best_mark) {
      best = other;
      best_number = process->busy[i];
      best_at = at;
      best_mark = mark;
    }
  }
  int status = PACK_BLOCKED;
  if (best) {
    process->depth++;
    status = go_to(process, best, best_number, best_at);
    process->depth--;
  }
  thread->waiting = false;
  return status;
}

static bool alone(const pack_process_t *process, const pack_thread_t *thread) {
  for (size_t i = 0; i < process->busy_count; i++) {
    const pack_thread_t *other = process->threads[process->busy[i]];
    if (other != thread && other->at < other->end) {
      return false;
    }
  }
  return true;
}

// This thread's next word cannot come now.
static int wait(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  int status = bring(process, number);
  if (status != PACK_BLOCKED) {
    return status;
  }
  if (process->now >= (double)thread->deadline || alone(process, thread)) {
    return pack_apply(process, number, true);
  }
  thread->delay = thread->delay ? thread->delay * 2 : (uint64_t)process->pack->quantum + 1;
  double next = process->now + (double)thread->delay;
  double end = (double)thread->deadline;
  thread->low = next < end ? next : end;
  double left = (double)(thread->stop - thread->at);
  thread->step =
      end > thread->low && (end - thread->low) / left < thread->step ? (end - thread->low) / left : thread->step;
  thread->begin = thread->at;
  return PACK_BLOCKED;
}

// Goes on with one thread until another's next word is earlier.
static int go_on(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  double limit = process->turns_count ? process->turns[0].key + process->pack->quantum : (double)UINT64_MAX * 2;
  while (!thread->ended && next_part(process, thread, false)) {
    double time = guess(thread);
    if (time > limit) {
      push(process, number, time);
      return 0;
    }
    process->now = time > process->now ? time : process->now;
    int status = pack_apply(process, number, false);
    if (status == PACK_BLOCKED) {
      status = wait(process, number);
    } else {
      thread->delay = 0;
    }
    if (status < 0) {
      return -1;
    }
  }
  return 0;
}

static int turns_room(pack_process_t *process) {
  if (process->turns_capacity >= process->thread_count) {
    return 0;
  }
  size_t capacity = process->thread_count * 2;
  uint32_t *busy = realloc(process->busy, capacity * sizeof *busy);
  process->busy = busy ? busy : process->busy;
  pack_turn_t *turns = realloc(process->turns, capacity * sizeof *turns);
  process->turns = turns ? turns : process->turns;
  if (!busy || !turns) {
    return -1;
  }
  process->turns_capacity = capacity;
  return 0;
}

int pack_order(pack_process_t *process, uint64_t clock) {
  if (turns_room(process) != 0) {
    return -1;
  }
  process->clock = clock > process->clock ? clock : process->clock;
  process->busy_count = 0;
  process->turns_count = 0;
  for (uint32_t number = 0; number < process->thread_count; number++) {
    pack_thread_t *thread = process->threads[number];
    if (!thread || thread->at == thread->end) {
      continue;
    }
    thread->settled = clock == UINT64_MAX ? thread->end : thread->settled;
    process->busy[process->busy_count++] = number;
    if (next_part(process, thread, false)) {
      push(process, number, guess(thread));
    }
  }
  while (process->turns_count > 0) {
    uint32_t number = pop(process);
    pack_thread_t *thread = process->threads[number];
    if (thread->ended || !next_part(process, thread, false)) {
      continue;
    }
    if (process->turns_count > 0 && guess(thread) > process->turns[0].key + process->pack->quantum) {
      push(process, number, guess(thread));
    } else if (go_on(process, number) != 0) {
      return -1;
    }
  }
  for (size_t i = 0; i < process->busy_count; i++) {
    pack_thread_t *thread = process->threads[process->busy[i]];
    pack_words_passed(thread);
    thread->settled = thread->end;
  }
  return 0;
}
