// The retention programs: patterns of memory demand over time. The more memory an allocator retains when demand falls,
// the fewer page faults the next rise causes; the more it releases, the less memory an idle process holds. A pattern is
// one row of a table. Its function is deterministic and calls only the allocator's standard functions.
#ifndef HAK_BENCH_RETENTION_H
#define HAK_BENCH_RETENTION_H

#include "bench.h"

#include <stdbool.h>

enum { MS_PER_S = 1000, NS_PER_MS = 1000000, KIB = 1024, MIB = 1 << 20, PERCENT = 100 };

// Which blocks of a bag are freed first.
typedef enum { OLDEST, NEWEST, ANY } order_t;

// Block sizes in [low, high): every doubling equally likely, or every size (`even`).
typedef struct {
  uint32_t low;
  uint32_t high;
  bool even;
} sizes_t;

typedef struct pattern {
  const char *name;
  void (*run)(const struct pattern *pattern);
  uint32_t mib; // live memory at the peak, at a scale of 100 %
  uint32_t rounds;
  sizes_t sizes;
  uint32_t keep_percent; // part of the peak that stays live at the end of a cycle
  order_t order;
  uint32_t pause_ms; // sleep after a cycle
  uint32_t every_ms; // cycles begin at multiples of this time; 0: each begins when the last one has ended
  uint32_t steps_m;  // millions of steps of arithmetic in a cycle
  int fill;          // byte with which the pattern fills its blocks, if it fills them
  const char *what;
} pattern_t;

// The last row of each table has no name.
extern const pattern_t saw_patterns[], service_patterns[], cache_patterns[], program_patterns[], data_patterns[],
    thread_patterns[];

// From the command line: the percentage of each pattern's memory, and the number of cycles (0: the pattern's own).
extern uint32_t scale_percent;
extern uint32_t forced_rounds;

static inline uint64_t scaled(uint64_t amount) {
  return amount * scale_percent / PERCENT;
}

static inline uint64_t pattern_bytes(const pattern_t *pattern) {
  return scaled((uint64_t)pattern->mib * MIB);
}

static inline uint32_t pattern_rounds(const pattern_t *pattern) {
  return forced_rounds != 0 ? forced_rounds : pattern->rounds;
}

// measure.c. A cycle is a part of the pattern that repeats. Whatever is between two cycles counts only in the totals.
void measure_start(void);
void measure_cycle_begin(void);
void measure_cycle_end(void);
void measure_report(const char *name, bool tail, bool tail_silent);

// The pattern's own tables come from mmap, populated. Their faults and their memory are left out of the report.
void *table_open(uint64_t bytes);
void table_close(void *table, uint64_t bytes);

// load.c
uint64_t sizes_draw(sizes_t sizes, uint64_t *random);
uint64_t sizes_mean(sizes_t sizes);
void pause_ms(uint32_t ms);
void pause_until(double second);
void small_calls(uint32_t ms); // 400 calls a second: 200 blocks of 16-512 bytes; each lives until 64 others are made
void compute(uint32_t steps_m);

typedef struct {
  char *at;
  uint64_t bytes;
} block_t;

// bag.c: live blocks, oldest first; frees in random order disturb the order.
typedef struct {
  block_t *blocks;
  uint64_t count;
  uint64_t capacity;
  uint64_t live_bytes;
  uint64_t random;
} bag_t;

bag_t bag_open(uint64_t capacity, uint64_t seed);
bag_t bag_for(uint64_t live_bytes, sizes_t sizes, uint64_t seed); // derives the capacity from the mean size
void bag_close(bag_t *bag);                                       // frees its blocks
char *bag_add(bag_t *bag, uint64_t bytes);                        // writes every page of the new block
void bag_drop(bag_t *bag, uint64_t index);
void bag_fill(bag_t *bag, uint64_t live_bytes, sizes_t sizes);
void bag_drain(bag_t *bag, uint64_t live_bytes, order_t order);
// Adds that many bytes, and frees random blocks so that the live bytes do not grow.
void bag_churn(bag_t *bag, uint64_t bytes, sizes_t sizes);

#endif
