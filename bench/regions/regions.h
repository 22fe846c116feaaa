// Shared by the files of this program: one interface to the regions of hakmem, the heaps of mimalloc 3, the arenas of
// jemalloc, and to blocks that are freed one by one.
#ifndef HAK_BENCH_REGIONS_H
#define HAK_BENCH_REGIONS_H

#include <stdbool.h>

#include "bench.h"

typedef struct {
  uint64_t blocks, bytes;
} sum_t;

// All functions come from the preloaded library. A function that is NULL is not there.
typedef struct {
  const char *name;
  const char *symbol; // in the library if this side is
  void (*start)(void);
  void *(*make)(void);
  void *(*take)(void *heap, size_t bytes);
  void (*end)(void *heap);                                       // with all of its blocks
  void (*reset)(void *heap);                                     // all blocks
  void (*walk)(void *heap, sum_t *sum);                          // visit all live blocks
  uint64_t (*live)(void *heap);                                  // bytes of the live blocks, as a gauge
  bool (*limit)(void *heap, size_t bytes);                       // false: there are no limits
  void *(*move_to)(void *block, size_t bytes, uint32_t percent); // a better place for a block, or NULL: it stays
  void (*move_done)(void *old);
} side_t;

// The side that the preloaded library has; `plain`: malloc and free.
const side_t *side_of(bool plain);

typedef struct {
  const char *name;
  void (*run)(const side_t *side);
} port_t;

extern const port_t life_ports[], heap_ports[];

// Processor time of the process and of the calling thread, in ns.
uint64_t process_ns(void);
uint64_t thread_ns(void);

// Give free pages back to the system.
void give_pages_back(void);

static inline void fill(void *block, size_t bytes, uint64_t value) {
  memset(block, (int)(value & 0xff), bytes);
}

static inline void *side_take(const side_t *side, void *heap, size_t bytes) {
  void *block = side->take(heap, bytes);
  if (block == NULL)
    bench_fail("regions: no memory");
  return block;
}

#endif
