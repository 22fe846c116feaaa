#include "retention.h"

bag_t bag_open(uint64_t capacity, uint64_t seed) {
  return (bag_t){.blocks = table_open(capacity * sizeof(block_t)), .capacity = capacity, .random = bench_seed(seed)};
}

// Capacity for a quarter more blocks than the mean size implies; a few thousand draws vary by far less.
bag_t bag_for(uint64_t live_bytes, sizes_t sizes, uint64_t seed) {
  enum { SPARE = 1024 };
  uint64_t mean = live_bytes / sizes_mean(sizes);
  return bag_open(mean + mean / 4 + SPARE, seed);
}

void bag_close(bag_t *bag) {
  bag_drain(bag, 0, OLDEST);
  table_close(bag->blocks, bag->capacity * sizeof(block_t));
}

char *bag_add(bag_t *bag, uint64_t bytes) {
  if (bag->count == bag->capacity)
    bench_fail("retention: more blocks than the pattern's table holds");
  char *at = bench_filled(bytes);
  bag->blocks[bag->count++] = (block_t){at, bytes};
  bag->live_bytes += bytes;
  return at;
}

void bag_drop(bag_t *bag, uint64_t index) {
  free(bag->blocks[index].at);
  bag->live_bytes -= bag->blocks[index].bytes;
  bag->blocks[index] = bag->blocks[--bag->count];
}

void bag_fill(bag_t *bag, uint64_t live_bytes, sizes_t sizes) {
  while (bag->live_bytes < live_bytes)
    bag_add(bag, sizes_draw(sizes, &bag->random));
}

static void bag_drain_oldest(bag_t *bag, uint64_t live_bytes) {
  uint64_t gone = 0;
  for (; gone < bag->count && bag->live_bytes > live_bytes; gone++) {
    free(bag->blocks[gone].at);
    bag->live_bytes -= bag->blocks[gone].bytes;
  }
  bag->count -= gone;
  memmove(bag->blocks, bag->blocks + gone, bag->count * sizeof(block_t));
}

void bag_drain(bag_t *bag, uint64_t live_bytes, order_t order) {
  if (order == OLDEST) {
    bag_drain_oldest(bag, live_bytes);
    return;
  }
  while (bag->count != 0 && bag->live_bytes > live_bytes)
    bag_drop(bag, order == NEWEST ? bag->count - 1 : bench_next(&bag->random) % bag->count);
}

// Drops blocks at random whatever their size, so that the mix of sizes stays as it was drawn.
void bag_churn(bag_t *bag, uint64_t bytes, sizes_t sizes) {
  for (uint64_t added = 0, most = bag->live_bytes; added < bytes;) {
    uint64_t size = sizes_draw(sizes, &bag->random);
    bag_add(bag, size);
    added += size;
    while (bag->live_bytes > most)
      bag_drop(bag, bench_next(&bag->random) % bag->count);
  }
}
