// pack_check MODEL SEEDS: packs simulated programs and compares the packed operations with those of the programs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pack_model.h"

typedef struct {
  trace_operation_t *operations;
  size_t count, capacity;
  size_t at;       // next operation to replay
  uint64_t *slots; // identity in each slot; 0: empty
  size_t slots_capacity;
  size_t deed; // next deed to be compared
} stream_t;

struct trace_writer {
  stream_t streams[MODEL_THREADS];
};

typedef struct {
  unsigned long frees, wrong, dropped, added, waits, handed_over;
} verdict_t;

int trace_write_process_end(trace_writer_t *writer, uint32_t process) {
  (void)writer;
  (void)process;
  return 0;
}

int trace_write_operation(trace_writer_t *writer, uint32_t process, uint32_t thread,
                          const trace_operation_t *operation) {
  stream_t *stream = &writer->streams[thread];
  if (process != 0) {
    return -1;
  }
  if (stream->count == stream->capacity) {
    stream->capacity = stream->capacity ? stream->capacity * 2 : 64;
    stream->operations = realloc(stream->operations, stream->capacity * sizeof *stream->operations);
  }
  stream->operations[stream->count++] = *operation;
  return 0;
}

static _Noreturn void fail(const char *what, size_t thread, size_t at) {
  printf("%s: thread %zu, operation %zu\n", what, thread, at);
  exit(1);
}

static uint64_t *slot(stream_t *owner, uint32_t number) {
  if (number >= owner->slots_capacity) {
    size_t capacity = 2 * (size_t)number + 64;
    owner->slots = realloc(owner->slots, capacity * sizeof *owner->slots);
    memset(owner->slots + owner->slots_capacity, 0, (capacity - owner->slots_capacity) * sizeof *owner->slots);
    owner->slots_capacity = capacity;
  }
  return &owner->slots[number];
}

static bool is_free(unsigned kind) {
  return kind == TRACE_FREE || kind == TRACE_FREE_FOREIGN;
}

static bool is_realloc(unsigned kind) {
  return kind == TRACE_REALLOC || kind == TRACE_REALLOC_FOREIGN;
}

// Checks that an operation is the thread's next deed. Only frees may differ: the packer may lack some and add others.
static void compare(const history_t *history, size_t thread, stream_t *stream, const trace_operation_t *operation,
                    uint64_t identity, verdict_t *verdict) {
  const actor_t *actor = &history->actors[thread];
  bool frees = is_free(operation->kind);
  unsigned kind = frees ? TRACE_FREE : is_realloc(operation->kind) ? TRACE_REALLOC : operation->kind;
  const deed_t *deed = &actor->deeds[stream->deed];
  while (stream->deed < actor->deed_count && deed->kind == TRACE_FREE && !frees) {
    verdict->dropped++;
    deed = &actor->deeds[++stream->deed];
  }
  bool remade = deed->kind == TRACE_REALLOC && kind == TRACE_MALLOC; // the packer did not know the old block
  if (stream->deed == actor->deed_count || (deed->kind != kind && !remade) ||
      (!frees && operation->size != deed->after)) {
    if (frees) {
      verdict->added++;
      return;
    }
    fail("not what the thread did", thread, stream->at);
  }
  verdict->dropped += remade;
  verdict->frees += frees;
  verdict->wrong += !remade && (frees || kind == TRACE_REALLOC) && identity != deed->before;
  stream->deed++;
}

static void perform(trace_writer_t *writer, const history_t *history, size_t thread, verdict_t *verdict) {
  stream_t *stream = &writer->streams[thread];
  const trace_operation_t *operation = &stream->operations[stream->at];
  unsigned kind = operation->kind;
  verdict->waits += kind == TRACE_WAIT;
  if (kind == TRACE_WAIT) {
    return;
  }
  bool foreign = kind == TRACE_FREE_FOREIGN || kind == TRACE_REALLOC_FOREIGN;
  verdict->handed_over += foreign;
  uint64_t *place = slot(&writer->streams[foreign ? operation->other : thread], operation->slot);
  bool begins = !is_free(kind) && !is_realloc(kind);
  if (begins != (*place == 0)) {
    fail(begins ? "slot is full" : "slot is empty", thread, stream->at);
  }
  compare(history, thread, stream, operation, *place, verdict);
  *place = is_free(kind) ? 0 : operation->size;
}

// Replays the operations in a random order that keeps each thread's own order and the waits.
static void replay(trace_writer_t *writer, const history_t *history, unsigned threads, uint64_t seed,
                   verdict_t *verdict) {
  unsigned left = threads;
  for (unsigned stuck = 0; left > 0;) {
    unsigned thread = (unsigned)(model_random(&seed) % threads);
    uint64_t steps = 1 + model_random(&seed) % 100;
    for (thread = 0 + thread; steps > 0; steps--) {
      stream_t *stream = &writer->streams[thread];
      const trace_operation_t *operation = &stream->operations[stream->at];
      if (stream->at >= stream->count ||
          (operation->kind == TRACE_WAIT && writer->streams[operation->other].at < operation->size)) {
        break;
      }
      perform(writer, history, thread, verdict);
      stream->at++;
      stuck = 0;
    }
    left = 0;
    for (unsigned i = 0; i < threads; i++) {
      left += writer->streams[i].at < writer->streams[i].count;
    }
    if (++stuck > 1000 * threads) {
      fail("locked", thread, writer->streams[thread].at);
    }
  }
}

static void check_slots(const trace_writer_t *writer, const history_t *history, unsigned threads, size_t spare) {
  for (unsigned i = 0; i < threads; i++) {
    size_t used = 0;
    for (size_t at = 0; at < writer->streams[i].count; at++) {
      const trace_operation_t *operation = &writer->streams[i].operations[at];
      bool begins = operation->kind <= TRACE_ALIGNED;
      used = begins && operation->slot >= used ? operation->slot + 1 : used;
    }
    if (used > history->actors[i].peak + spare) {
      printf("%zu slots for %zu blocks\n", used, history->actors[i].peak);
      exit(1);
    }
  }
}

static void check(const model_t *model, uint64_t seed, verdict_t *verdict, pack_counts_t *sum) {
  trace_writer_t writer = {0};
  history_t history = {0};
  pack_counts_t counts;
  pack_t *pack = pack_open(&writer, MODEL_NS_PER_CLOCK);
  if (!pack || pack_process(pack, -1, 0) != 0 || model_run(model, seed, pack, 0, &history) != 0 ||
      pack_process_end(pack, 0) != 0) {
    fail("the packer failed", 0, 0);
  }
  pack_counts(pack, 0, &counts);
  pack_close(pack);
  replay(&writer, &history, model->threads, seed, verdict);
  check_slots(&writer, &history, model->threads, 40 + counts.unknown_frees);
  if (model->exact && counts.live_blocks != history.lost_live) {
    fail("live blocks at the end", counts.live_blocks, history.lost_live);
  }
  for (unsigned i = 0; i < model->threads; i++) {
    if (writer.streams[i].deed + counts.unknown_frees < history.actors[i].deed_count) {
      fail("deeds are missing", i, writer.streams[i].deed);
    }
    free(writer.streams[i].operations);
    free(writer.streams[i].slots);
  }
  history_close(&history);
  sum->operations += counts.operations;
  sum->unknown_frees += counts.unknown_frees;
  sum->lost_frees += counts.lost_frees;
}

static const struct {
  const char *name;
  model_t model;
} models[] = {
    {"exact", {.threads = 4, .deeds = 4000, .exact = true, .foreign = 50, .sleepers = 5}},
    {"exact-handed", {.threads = 8, .deeds = 4000, .exact = true, .foreign = 100, .newest = 50, .sleepers = 5}},
    {"alone", {.threads = 1, .deeds = 4000, .sleepers = 5}},
    {"own", {.threads = 4, .deeds = 4000, .local = true, .sleepers = 5}},
    {"usual",
     {.threads = 4, .deeds = 4000, .foreign = 20, .local = true, .sleepers = 5, .latency_ns = 150, .skew_ns = 50}},
    {"busy", {.threads = 4, .deeds = 4000, .foreign = 20, .local = true, .latency_ns = 150}},
    {"shared", {.threads = 4, .deeds = 4000, .foreign = 50, .sleepers = 5, .latency_ns = 150, .skew_ns = 50}},
    {"handed",
     {.threads = 2, .deeds = 4000, .foreign = 100, .newest = 50, .local = true, .sleepers = 5, .latency_ns = 150}},
    {"handed8",
     {.threads = 8, .deeds = 4000, .foreign = 100, .newest = 50, .local = true, .sleepers = 20, .latency_ns = 150}},
    {"worst", {.threads = 8, .deeds = 4000, .foreign = 100, .newest = 80, .sleepers = 20, .skew_ns = 2000}},
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc == 3 && i < sizeof models / sizeof models[0]; i++) {
    if (strcmp(argv[1], models[i].name) == 0) {
      verdict_t verdict = {0};
      pack_counts_t sum = {0};
      for (uint64_t seed = 1; seed <= strtoull(argv[2], NULL, 10); seed++) {
        check(&models[i].model, seed, &verdict, &sum);
      }
      printf(
          "operations=%lu frees=%lu wrong=%lu dropped=%lu added=%lu waits=%lu handed_over=%lu unknown=%lu lost=%lu\n",
          (unsigned long)sum.operations, verdict.frees, verdict.wrong, verdict.dropped, verdict.added, verdict.waits,
          verdict.handed_over, (unsigned long)sum.unknown_frees, (unsigned long)sum.lost_frees);
      return 0;
    }
  }
  fprintf(stderr, "usage: pack_check MODEL SEEDS\n");
  return 2;
}
