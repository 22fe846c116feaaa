// The threads of a process, and the lists of each: its words, its free slots, its knowledge of other threads.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define WORDS_FIRST 64
#define LIST_FIRST 16

pack_thread_t *pack_thread_at(pack_process_t *process, uint32_t number) {
  if (number >= PACK_THREADS_MOST) {
    errno = EINVAL;
    return NULL;
  }
  if (number >= process->thread_count) {
    size_t count = process->thread_count * 2 > number ? process->thread_count * 2 : (size_t)number + 1;
    pack_thread_t **grown = realloc(process->threads, count * sizeof(pack_thread_t *));
    if (!grown) {
      return NULL;
    }
    memset(grown + process->thread_count, 0, (count - process->thread_count) * sizeof(pack_thread_t *));
    process->threads = grown;
    process->thread_count = count;
  }
  if (!process->threads[number]) {
    process->threads[number] = calloc(1, sizeof(pack_thread_t));
  }
  return process->threads[number];
}

int pack_words_append(pack_thread_t *thread, const uint64_t *words, size_t count) {
  size_t needed = thread->end + count;
  if (needed > thread->capacity) {
    size_t capacity = thread->capacity ? thread->capacity : WORDS_FIRST;
    while (capacity < needed) {
      capacity *= 2;
    }
    uint64_t *grown = realloc(thread->words, capacity * sizeof *grown);
    if (!grown) {
      return -1;
    }
    thread->words = grown;
    thread->capacity = capacity;
  }
  memcpy(thread->words + thread->end, words, count * sizeof *words);
  thread->end = needed;
  return 0;
}

void pack_words_passed(pack_thread_t *thread) {
  size_t passed = thread->at;
  if (passed == 0) {
    return;
  }
  if (passed == thread->end) {
    if (thread->capacity > WORDS_FIRST) {
      free(thread->words);
      thread->words = NULL;
      thread->capacity = 0;
    }
  } else {
    memmove(thread->words, thread->words + passed, (thread->end - passed) * sizeof *thread->words);
  }
  thread->at = 0;
  thread->end -= passed;
  thread->settled = thread->settled > passed ? thread->settled - passed : 0;
  thread->marked = thread->marked >= passed ? thread->marked - passed : SIZE_MAX;
  thread->stop -= passed;
}

int pack_slot_give(pack_slots_t *slots, uint32_t slot) {
  if (slots->own_count == slots->own_capacity) {
    size_t capacity = slots->own_capacity ? slots->own_capacity * 2 : LIST_FIRST;
    uint32_t *grown = realloc(slots->own, capacity * sizeof *grown);
    if (!grown) {
      return -1;
    }
    slots->own = grown;
    slots->own_capacity = capacity;
  }
  slots->own[slots->own_count++] = slot;
  return 0;
}

int pack_slot_return(pack_slots_t *slots, pack_returned_t returned) {
  if (slots->returned_count == slots->returned_capacity) {
    size_t capacity = slots->returned_capacity ? slots->returned_capacity * 2 : LIST_FIRST;
    pack_returned_t *grown = malloc(capacity * sizeof *grown);
    if (!grown) {
      return -1;
    }
    for (size_t i = 0; i < slots->returned_count; i++) {
      grown[i] = slots->returned[(slots->returned_at + i) & (slots->returned_capacity - 1)];
    }
    free(slots->returned);
    slots->returned = grown;
    slots->returned_at = 0;
    slots->returned_capacity = capacity;
  }
  slots->returned[(slots->returned_at + slots->returned_count++) & (slots->returned_capacity - 1)] = returned;
  return 0;
}

static pack_known_t *known_place(const pack_knowledge_t *knowledge, uint32_t thread) {
  size_t mask = knowledge->capacity - 1;
  size_t at = (thread * 0x9e3779b1u) & mask;
  while (knowledge->entries[at].thread != thread + 1 && knowledge->entries[at].thread != 0) {
    at = (at + 1) & mask;
  }
  return &knowledge->entries[at];
}

uint64_t pack_known(const pack_knowledge_t *knowledge, uint32_t thread) {
  return knowledge->capacity ? known_place(knowledge, thread)->count : 0;
}

// Drops the knowledge of ended threads to save room: at worst, a thread waits for them once more.
static int known_grow(pack_process_t *process, pack_knowledge_t *knowledge) {
  pack_knowledge_t fresh = {0};
  for (size_t i = 0; i < knowledge->capacity; i++) {
    uint32_t thread = knowledge->entries[i].thread;
    fresh.count += thread != 0 && !process->threads[thread - 1]->ended;
  }
  fresh.capacity = LIST_FIRST;
  while (fresh.capacity < 4 * fresh.count) {
    fresh.capacity *= 2;
  }
  fresh.entries = calloc(fresh.capacity, sizeof *fresh.entries);
  if (!fresh.entries) {
    return -1;
  }
  for (size_t i = 0; i < knowledge->capacity; i++) {
    uint32_t thread = knowledge->entries[i].thread;
    if (thread != 0 && !process->threads[thread - 1]->ended) {
      *known_place(&fresh, thread - 1) = knowledge->entries[i];
    }
  }
  free(knowledge->entries);
  *knowledge = fresh;
  return 0;
}

int pack_learn(pack_process_t *process, pack_knowledge_t *knowledge, uint32_t thread, uint64_t count) {
  if (knowledge->count * 2 >= knowledge->capacity && known_grow(process, knowledge) != 0) {
    return -1;
  }
  pack_known_t *place = known_place(knowledge, thread);
  knowledge->count += place->thread == 0;
  *place = (pack_known_t){thread + 1, count};
  return 0;
}

void pack_thread_release(pack_thread_t *thread) {
  free(thread->words);
  free(thread->slots.own);
  free(thread->slots.returned);
  free(thread->knowledge.entries);
  thread->words = NULL;
  thread->at = thread->end = thread->capacity = thread->settled = thread->stop = 0;
  thread->slots = (pack_slots_t){0};
  thread->knowledge = (pack_knowledge_t){0};
}

void pack_thread_shrink(pack_process_t *process, uint32_t number) {
  pack_thread_t *smaller = realloc(process->threads[number], offsetof(pack_thread_t, words));
  if (smaller) {
    process->threads[number] = smaller;
  }
}
