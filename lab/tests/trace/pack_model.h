// A simulated program: threads with a random legal schedule, on an allocator that reuses addresses at once. Also makes
// the words that the recorder would have written. No two blocks have the same size, so the size identifies a block.
#ifndef PACK_MODEL_H
#define PACK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pack/pack.h"

#define MODEL_THREADS 64

// An operation of a thread; `before` and `after` identify the blocks that it frees and allocates.
typedef struct {
  uint8_t kind; // trace_kind_t, without the _FOREIGN kinds
  uint64_t before, after;
} deed_t;

typedef struct {
  unsigned threads, deeds;
  bool exact;          // a time mark before each word and equal clocks, so that nothing is ambiguous
  unsigned foreign;    // percent of frees that may take a block of any thread
  unsigned newest;     // percent of frees that take the newest block
  unsigned sleepers;   // deeds in 1000 that are followed by a sleep
  unsigned latency_ns; // time until another thread can use a new block
  unsigned skew_ns;    // largest difference between threads' clocks
  bool local;          // a freed address stays with the thread that freed it, as in a thread cache
} model_t;

typedef struct {
  uint64_t *words;
  size_t count, capacity, handed;
  uint64_t mark;
  unsigned since, period;
  int64_t skew;
  uint64_t next; // time of its next deed
  uint64_t reallocating;
  deed_t *deeds;
  size_t deed_count, deed_capacity;
  size_t live, peak; // of blocks it allocated
} actor_t;

typedef struct {
  actor_t actors[MODEL_THREADS];
  size_t lost_live; // blocks live at the end
} history_t;

#define MODEL_NS_PER_CLOCK 20.0

// Runs the whole simulation and passes the words to the packer meanwhile, as a collector would.
int model_run(const model_t *, uint64_t seed, pack_t *, uint32_t process, history_t *);
void history_close(history_t *);
uint64_t model_random(uint64_t *state);

#endif
