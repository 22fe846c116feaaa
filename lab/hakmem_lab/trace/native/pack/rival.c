// Decides which thread is first where several name an address at about the same time. In the true order, an address is
// taken and given back alternately. So of all orders that the threads allow, it chooses the one that leaves the fewest
// words over; among equals, the one that follows the threads' turns.
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define TAGS_PER_THREAD 256 // a part has about 32 words, so one in eight tags is in use
#define TAGS_LEAST 4096
#define RIVALS_MOST 6
#define CLAIMS_MOST 8 // most words of one thread that are compared
#define TRIALS_MOST 400

int pack_tags_open(pack_process_t *process, size_t threads) {
  if (threads < 2) {
    free(process->tags);
    process->tags = NULL;
    return 0;
  }
  size_t count = TAGS_LEAST;
  while (count < threads * TAGS_PER_THREAD) {
    count *= 2;
  }
  if (!process->tags || count > process->tags_mask + 1) {
    free(process->tags);
    process->tags = malloc(count * sizeof *process->tags);
    if (!process->tags) {
      return -1;
    }
    process->tags_mask = count - 1;
  }
  memset(process->tags, 0, (process->tags_mask + 1) * sizeof *process->tags);
  return 0;
}

static bool in_signature(const pack_thread_t *thread, uint64_t address) {
  uint64_t bit = pack_hash(address) >> 24;
  return thread->addresses[bit >> 6] >> (bit & 63) & 1;
}

void pack_tags_add(pack_process_t *process, uint32_t number) {
  pack_thread_t *thread = process->threads[number];
  memset(thread->addresses, 0, sizeof thread->addresses);
  for (size_t at = thread->at; at < thread->stop; at += pack_record_words(thread->words[at])) {
    pack_claim_t claim = pack_claim(thread->words[at]);
    if (claim == PACK_NEITHER) {
      continue;
    }
    uint64_t address = pack_field(thread->words[at]);
    uint64_t bit = pack_hash(address) >> 24;
    thread->addresses[bit >> 6] |= (uint64_t)1 << (bit & 63);
    pack_tag_t *tag = pack_tag(process, address, claim);
    if (tag->thread == 0) {
      tag->thread = number + 1;
    } else if (tag->thread != number + 1 && tag->other != number + 1) {
      tag->other = tag->other == 0 ? number + 1 : PACK_SEVERAL;
    }
    tag->words++;
  }
}

typedef struct {
  uint32_t thread;
  unsigned count, at;
  uint64_t turn;
  size_t first; // index of its next word that names the address
  bool takes[CLAIMS_MOST];
} rival_t;

typedef struct {
  rival_t rivals[RIVALS_MOST];
  unsigned count, claims, trials;
  unsigned best, best_first; // number of words used by the best order, and the rival of its first word
} contest_t;

static void enter(contest_t *contest, const pack_process_t *process, uint32_t number, uint64_t address) {
  const pack_thread_t *thread = process->threads[number];
  rival_t *rival = &contest->rivals[contest->count];
  *rival = (rival_t){.thread = number, .turn = thread->key};
  for (size_t at = thread->at; at < thread->stop && rival->count < CLAIMS_MOST;
       at += pack_record_words(thread->words[at])) {
    pack_claim_t claim = pack_claim(thread->words[at]);
    if (claim != PACK_NEITHER && pack_field(thread->words[at]) == address) {
      rival->takes[rival->count] = claim == PACK_TAKES;
      rival->first = rival->count == 0 ? at : rival->first;
      rival->count++;
    }
  }
  contest->claims += rival->count;
  contest->count += rival->count > 0;
}

// Tries all orders, the one by turns first, up to TRIALS_MOST steps.
static void try_orders(contest_t *contest, bool live, unsigned used, unsigned first) {
  if (used > contest->best) {
    contest->best = used;
    contest->best_first = first;
  }
  bool tried[RIVALS_MOST] = {false};
  while (contest->best < contest->claims && contest->trials < TRIALS_MOST) {
    unsigned next = RIVALS_MOST;
    for (unsigned i = 0; i < contest->count; i++) {
      const rival_t *rival = &contest->rivals[i];
      bool may = !tried[i] && rival->at < rival->count && rival->takes[rival->at] != live;
      if (may && (next == RIVALS_MOST || rival->turn < contest->rivals[next].turn)) {
        next = i;
      }
    }
    if (next == RIVALS_MOST) {
      return;
    }
    tried[next] = true;
    contest->trials++;
    contest->rivals[next].at++;
    try_orders(contest, !live, used + 1, used == 0 ? next : first);
    contest->rivals[next].at--;
  }
}

static void enter_if_rival(contest_t *contest, const pack_process_t *process, uint32_t number, uint32_t other_number,
                           uint64_t address) {
  const pack_thread_t *other = process->threads[other_number];
  bool early = other_number != number && !other->ended && other->at < other->stop &&
               other->mark <= process->threads[number]->key;
  if (early && !other->waiting && in_signature(other, address)) {
    enter(contest, process, other_number, address);
  }
}

bool pack_rival(const pack_process_t *process, uint32_t number, const pack_tag_t *tag, pack_place_t *place) {
  const pack_thread_t *thread = process->threads[number];
  uint64_t address = pack_field(thread->words[thread->at]);
  contest_t contest = {0};
  enter(&contest, process, number, address);
  if (tag->other != PACK_SEVERAL) {
    enter_if_rival(&contest, process, number, (tag->other == number + 1 ? tag->thread : tag->other) - 1, address);
  } else {
    for (size_t i = 0; i < process->busy_count && contest.count < RIVALS_MOST; i++) {
      enter_if_rival(&contest, process, number, process->busy[i], address);
    }
  }
  bool live = pack_table_find(&process->table, address)->address != 0;
  if (contest.count < 2) {
    return false;
  }
  try_orders(&contest, live, 0, 0);
  const rival_t *first = &contest.rivals[contest.best_first];
  *place = (pack_place_t){first->thread, first->first};
  return contest.best > 0 && first->thread != number;
}

// Index of the word by which this thread next takes (or gives) the address, up to the present time. SIZE_MAX: there is
// none, or the opposite claim comes first.
static size_t find(const pack_process_t *process, const pack_thread_t *thread, uint64_t address, pack_claim_t wanted,
                   uint64_t *mark) {
  bool named = thread->at < thread->stop && in_signature(thread, address);
  uint64_t limit = process->now + process->pack->slack;
  *mark = thread->mark;
  for (size_t at = named ? thread->at : thread->stop; at < thread->end && *mark <= limit;
       at += pack_record_words(thread->words[at])) {
    uint64_t word = thread->words[at];
    pack_claim_t claim = pack_claim(word);
    if (pack_code(word) == RAW_SIZE_LIMIT + RAW_TIME) {
      *mark = pack_field(word) > *mark ? pack_field(word) : *mark;
    } else if (claim != PACK_NEITHER && pack_field(word) == address) {
      return claim == wanted ? at : SIZE_MAX;
    }
  }
  return SIZE_MAX;
}

bool pack_provider(const pack_process_t *process, uint32_t number, pack_place_t *place) {
  const pack_thread_t *thread = process->threads[number];
  uint64_t word = thread->words[thread->at];
  pack_claim_t wanted = pack_claim(word) == PACK_TAKES ? PACK_GIVES : PACK_TAKES;
  uint64_t best = UINT64_MAX;
  bool found = false;
  for (size_t i = 0; i < process->busy_count; i++) {
    const pack_thread_t *other = process->threads[process->busy[i]];
    uint64_t mark;
    if (other == thread || other->waiting || other->at == other->end) {
      continue;
    }
    size_t at = find(process, other, pack_field(word), wanted, &mark);
    if (at != SIZE_MAX && (!found || mark < best)) {
      *place = (pack_place_t){process->busy[i], at};
      best = mark;
      found = true;
    }
  }
  return found;
}
