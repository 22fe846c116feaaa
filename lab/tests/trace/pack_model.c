#include "pack_model.h"

#include <stdlib.h>

#define SLOW_NS 6000
#define ADVANCE_NS 50000
#define BLOCKS 4096

typedef struct {
  uint64_t address, identity, since;
  unsigned owner, holder;
} block_t;

typedef struct {
  uint64_t addresses[BLOCKS];
  size_t count;
} shelf_t;

typedef struct {
  const model_t *model;
  history_t *history;
  uint64_t random, now, identities, addresses;
  block_t live[BLOCKS], moving[MODEL_THREADS];
  size_t live_count;
  shelf_t shelves[MODEL_THREADS];
} world_t;

uint64_t model_random(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static uint64_t below(world_t *world, uint64_t limit) {
  return model_random(&world->random) % limit;
}

static void word(actor_t *actor, uint64_t value) {
  if (actor->count == actor->capacity) {
    actor->capacity = actor->capacity ? actor->capacity * 2 : 64;
    actor->words = realloc(actor->words, actor->capacity * sizeof *actor->words);
  }
  actor->words[actor->count++] = value;
}

static void code(actor_t *actor, uint64_t address, unsigned kind) {
  word(actor, raw_word(address, RAW_SIZE_LIMIT + kind));
}

// Writes a time mark every `period` words, as the recorder does.
static void mark(world_t *world, actor_t *actor) {
  if (actor->since++ % actor->period != 0) {
    return;
  }
  int64_t shown = (int64_t)world->now + actor->skew;
  uint64_t now = shown > 0 ? (uint64_t)shown : 0;
  code(actor, (uint64_t)((double)now / MODEL_NS_PER_CLOCK), RAW_TIME);
  uint64_t took = (now - actor->mark) * 32;
  actor->period = world->model->exact ? 1 : took > (uint64_t)SLOW_NS * actor->period ? 2 : 32;
  actor->since = 1;
  actor->mark = now;
}

static void deed(actor_t *actor, unsigned kind, uint64_t before, uint64_t after) {
  if (actor->deed_count == actor->deed_capacity) {
    actor->deed_capacity = actor->deed_capacity ? actor->deed_capacity * 2 : 64;
    actor->deeds = realloc(actor->deeds, actor->deed_capacity * sizeof *actor->deeds);
  }
  actor->deeds[actor->deed_count++] = (deed_t){(uint8_t)kind, before, after};
}

static shelf_t *shelf(world_t *world, unsigned thread) {
  return &world->shelves[world->model->local ? thread : 0];
}

static uint64_t take_address(world_t *world, unsigned thread) {
  shelf_t *from = shelf(world, thread);
  return from->count > 0 ? from->addresses[--from->count] : 2 * ++world->addresses;
}

static void give_address(world_t *world, unsigned thread, uint64_t address) {
  shelf_t *to = shelf(world, thread);
  to->addresses[to->count++] = address;
}

static void put_live(world_t *world, unsigned thread, block_t block) {
  block.since = world->now;
  block.holder = thread;
  world->live[world->live_count++] = block;
}

static void allocate(world_t *world, unsigned thread) {
  actor_t *actor = &world->history->actors[thread];
  block_t block = {.address = take_address(world, thread), .identity = ++world->identities, .owner = thread};
  mark(world, actor);
  unsigned kind = TRACE_MALLOC;
  uint64_t choice = below(world, 10);
  if (choice == 0) {
    code(actor, block.address, RAW_CALLOC);
    word(actor, block.identity + 1);
    kind = TRACE_CALLOC;
  } else if (choice == 1) {
    code(actor, block.address, RAW_ALIGNED);
    word(actor, (block.identity << 6 | 7) + 1);
    kind = TRACE_ALIGNED;
  } else if (choice == 2 || block.identity >= RAW_SIZE_LIMIT) {
    code(actor, block.address, RAW_LARGE);
    word(actor, block.identity + 1);
  } else {
    word(actor, raw_word(block.address, (uint32_t)block.identity));
  }
  deed(actor, kind, 0, block.identity);
  put_live(world, thread, block);
  actor->live++;
  actor->peak = actor->live > actor->peak ? actor->live : actor->peak;
}

// A block can be used by other threads only after the model's latency.
static bool may_have(const world_t *world, unsigned thread, const block_t *block, bool own) {
  return block->holder == thread || (!own && block->since + world->model->latency_ns <= world->now);
}

// Address 0: there is none.
static block_t choose(world_t *world, unsigned thread) {
  bool newest = below(world, 100) < world->model->newest;
  bool own = below(world, 100) >= world->model->foreign;
  size_t at = newest ? world->live_count - 1 : below(world, world->live_count);
  for (size_t i = 0; i < world->live_count; i++, at = (at + world->live_count - 1) % world->live_count) {
    if (may_have(world, thread, &world->live[at], own)) {
      block_t block = world->live[at];
      world->live[at] = world->live[--world->live_count];
      return block;
    }
  }
  return (block_t){0};
}

static void release(world_t *world, unsigned thread) {
  actor_t *actor = &world->history->actors[thread];
  block_t block = choose(world, thread);
  if (block.address == 0) {
    return;
  }
  mark(world, actor);
  code(actor, block.address, RAW_FREE);
  deed(actor, TRACE_FREE, block.identity, 0);
  give_address(world, thread, block.address);
  world->history->actors[block.owner].live--;
}

static void realloc_from(world_t *world, unsigned thread) {
  actor_t *actor = &world->history->actors[thread];
  block_t block = choose(world, thread);
  if (block.address == 0) {
    return;
  }
  mark(world, actor);
  code(actor, block.address, RAW_REALLOC_FROM);
  if (below(world, 2) == 0) {
    give_address(world, thread, block.address);
    block.address = 0;
  }
  world->moving[thread] = block;
  actor->reallocating = block.identity;
}

static void realloc_to(world_t *world, unsigned thread) {
  actor_t *actor = &world->history->actors[thread];
  block_t block = world->moving[thread];
  block.address = block.address ? block.address : take_address(world, thread);
  block.identity = ++world->identities;
  mark(world, actor);
  code(actor, block.address, RAW_REALLOC_TO);
  word(actor, block.identity + 1);
  deed(actor, TRACE_REALLOC, actor->reallocating, block.identity);
  actor->reallocating = 0;
  put_live(world, thread, block);
}

static void act(world_t *world, unsigned thread) {
  actor_t *actor = &world->history->actors[thread];
  uint64_t choice = below(world, 100);
  if (actor->reallocating) {
    realloc_to(world, thread);
  } else if (world->live_count == 0 || (choice < 47 && world->live_count < BLOCKS - MODEL_THREADS)) {
    allocate(world, thread);
  } else if (choice < 94) {
    release(world, thread);
  } else {
    realloc_from(world, thread);
  }
  actor->next = world->now + 20 + below(world, 60);
  if (below(world, 1000) < world->model->sleepers) {
    actor->next += 1000 + below(world, 1000000);
  }
}

static int hand_over(world_t *world, pack_t *pack, uint32_t process) {
  for (unsigned i = 0; i < world->model->threads; i++) {
    actor_t *actor = &world->history->actors[i];
    if (actor->handed < actor->count) {
      if (pack_words(pack, process, i, actor->words + actor->handed, actor->count - actor->handed) != 0) {
        return -1;
      }
      actor->handed = actor->count;
    }
  }
  return pack_advance(pack, process, (uint64_t)((double)world->now / MODEL_NS_PER_CLOCK));
}

static unsigned first(const world_t *world) {
  unsigned best = 0;
  for (unsigned i = 1; i < world->model->threads; i++) {
    if (world->history->actors[i].next < world->history->actors[best].next) {
      best = i;
    }
  }
  return best;
}

int model_run(const model_t *model, uint64_t seed, pack_t *pack, uint32_t process, history_t *history) {
  world_t *world = calloc(1, sizeof *world);
  world->model = model;
  world->history = history;
  world->random = seed;
  for (unsigned i = 0; i < model->threads; i++) {
    actor_t *actor = &history->actors[i];
    actor->period = 1;
    actor->skew = model->skew_ns ? (int64_t)below(world, 2 * model->skew_ns) - (int64_t)model->skew_ns : 0;
    actor->next = 10000 + below(world, 1000);
  }
  int status = 0;
  uint64_t advance = ADVANCE_NS;
  for (unsigned i = 0; i < model->deeds && status == 0; i++) {
    unsigned thread = first(world);
    uint64_t next = history->actors[thread].next;
    uint64_t tick = model->exact ? (uint64_t)MODEL_NS_PER_CLOCK : 1;
    world->now = next > world->now + tick ? next : world->now + tick;
    if (world->now > advance) {
      status = hand_over(world, pack, process);
      advance = world->now + ADVANCE_NS / 10 + below(world, 2 * ADVANCE_NS);
    }
    act(world, thread);
  }
  for (unsigned i = 0; i < model->threads; i++) {
    if (history->actors[i].reallocating) {
      realloc_to(world, i);
    }
  }
  status = status == 0 ? hand_over(world, pack, process) : status;
  history->lost_live = world->live_count;
  free(world);
  return status;
}

void history_close(history_t *history) {
  for (size_t i = 0; i < MODEL_THREADS; i++) {
    free(history->actors[i].words);
    free(history->actors[i].deeds);
  }
}
