#include "churn.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

enum {
  WHOLE_BYTES = 512, /* up to here every byte of a block is written and verified */
  EDGE_BYTES = 16,   /* of a longer block, so many bytes at each end */
  STEPS_PER_ROUND = 64,
};

static unsigned char pattern_of(struct churn_block block) {
  uint64_t mixed = ((uintptr_t)block.start >> 4) * 0x9E3779B97F4A7C15u + block.bytes;
  return (unsigned char)((mixed >> 40) | 1); /* never 0, which fresh memory holds */
}

void churn_block_fill(struct churn_block block) {
  unsigned char pattern = pattern_of(block);
  if (block.bytes <= WHOLE_BYTES) {
    memset(block.start, pattern, block.bytes);
    return;
  }
  memset(block.start, pattern, EDGE_BYTES);
  memset(block.start + block.bytes - EDGE_BYTES, pattern, EDGE_BYTES);
}

static void verify_range(const unsigned char *start, size_t bytes, unsigned char pattern) {
  for (size_t i = 0; i < bytes; i++)
    CHECK(start[i] == pattern);
}

void churn_block_verify(struct churn_block block) {
  unsigned char pattern = pattern_of(block);
  if (block.bytes <= WHOLE_BYTES) {
    verify_range(block.start, block.bytes, pattern);
    return;
  }
  verify_range(block.start, EDGE_BYTES, pattern);
  verify_range(block.start + block.bytes - EDGE_BYTES, EDGE_BYTES, pattern);
}

/* Mostly small sizes. In a mixed table, one in 16 is medium, and one in 256 large (with its own mapping). */
static size_t random_size(struct churn_table *table) {
  uint64_t random = check_random(&table->random);
  size_t size = (size_t)(random >> 32);
  if (table->sizes == CHURN_MIXED && random % 256 == 0)
    return 200000 + size % (2u << 20);
  if (table->sizes == CHURN_MIXED && random % 16 == 0)
    return 1024 + size % 60000;
  return 1 + size % 1040;
}

static struct churn_block allocate(struct churn_table *table) {
  struct churn_block block = {NULL, random_size(table)};
  uint64_t way = check_random(&table->random) % 16;
  if (way == 0) {
    block.start = calloc(1, block.bytes);
    CHECK(block.start != NULL);
    verify_range(block.start, block.bytes <= WHOLE_BYTES ? block.bytes : EDGE_BYTES, 0);
  } else if (way == 1) {
    size_t alignment = (size_t)32 << (check_random(&table->random) % 9);
    block.start = aligned_alloc(alignment, block.bytes);
    CHECK((uintptr_t)block.start % alignment == 0);
  } else {
    block.start = malloc(block.bytes);
  }
  CHECK(block.start != NULL);
  churn_block_fill(block);
  return block;
}

static void reallocate(struct churn_table *table, struct churn_block *block) {
  struct churn_block old = *block;
  size_t bytes = random_size(table);
  size_t kept = old.bytes < bytes ? old.bytes : bytes;
  unsigned char pattern = pattern_of(old);
  unsigned char *start = realloc(old.start, bytes);
  CHECK(start != NULL);
  bool whole = old.bytes <= WHOLE_BYTES || kept <= EDGE_BYTES;
  verify_range(start, whole ? kept : EDGE_BYTES, pattern);
  block->start = start;
  block->bytes = bytes;
  churn_block_fill(*block);
}

void churn_table_init(struct churn_table *table, enum churn_sizes sizes, uint64_t seed) {
  memset(table, 0, sizeof *table);
  table->sizes = sizes;
  table->random = seed * 0x9E3779B97F4A7C15u + 1;
}

void churn_table_steps(struct churn_table *table, unsigned steps) {
  for (unsigned i = 0; i < steps; i++) {
    struct churn_block *block = &table->blocks[check_random(&table->random) % CHURN_SLOTS];
    if (block->start == NULL) {
      *block = allocate(table);
      continue;
    }
    churn_block_verify(*block);
    if (check_random(&table->random) % 8 == 0) {
      reallocate(table, block);
      continue;
    }
    free(block->start);
    block->start = NULL;
  }
}

void churn_table_fill(struct churn_table *table) {
  for (unsigned i = 0; i < CHURN_SLOTS; i++) {
    if (table->blocks[i].start == NULL)
      table->blocks[i] = allocate(table);
  }
}

void churn_table_clear(struct churn_table *table) {
  for (unsigned i = 0; i < CHURN_SLOTS; i++) {
    if (table->blocks[i].start == NULL)
      continue;
    churn_block_verify(table->blocks[i]);
    free(table->blocks[i].start);
    table->blocks[i].start = NULL;
  }
}

static void *run(void *argument) {
  struct churn_thread *thread = argument;
  while (!atomic_load_explicit(&thread->stop, memory_order_relaxed)) {
    churn_table_steps(&thread->table, STEPS_PER_ROUND);
    atomic_fetch_add_explicit(&thread->rounds, 1, memory_order_relaxed);
  }
  churn_table_clear(&thread->table);
  return NULL;
}

void churn_thread_start(struct churn_thread *thread, enum churn_sizes sizes, uint64_t seed) {
  churn_table_init(&thread->table, sizes, seed);
  atomic_store(&thread->stop, false);
  atomic_store(&thread->rounds, 0);
  CHECK(pthread_create(&thread->id, NULL, run, thread) == 0);
}

void churn_thread_stop(struct churn_thread *thread) {
  atomic_store(&thread->stop, true);
  CHECK(pthread_join(thread->id, NULL) == 0);
}
