// A program that is only simulated: threads with a random legal schedule over an allocator that hands an address out
// again at once, and what the recorder would have written of it. The size of a block is its identity: no two are alike.
#ifndef PACK_MODEL_H
#define PACK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pack/pack.h"

#define MODEL_THREADS 64

// What a thread did, by identities.
typedef struct {
  uint8_t kind; // trace_kind_t; _FOREIGN ones as the plain ones
  uint64_t before, after;
} deed_t;

typedef struct {
  unsigned threads, deeds;
  bool exact;          // a mark before each word, clocks alike: nothing is ambiguous
  unsigned foreign;    // percent of frees that take any thread's block
  unsigned newest;     // percent of frees that take the newest block there is
  unsigned sleepers;   // of 1000 deeds are followed by a sleep
  unsigned latency_ns; // until another thread may have a new block
  unsigned skew_ns;    // clocks differ by up to this
  bool local;          // a freed address stays with the thread that freed it, as with a thread's cache
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

// Runs it all, and hands the words to the packer on the way, as a collector would.
int model_run(const model_t *, uint64_t seed, pack_t *, uint32_t process, history_t *);
void history_close(history_t *);
uint64_t model_random(uint64_t *state);

#endif
