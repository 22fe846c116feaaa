/* Allocation traffic with verified contents.
 *
 * A table belongs to one thread at a time. Its blocks may have come from any thread. */
#ifndef HAKMEM_TEST_PROCESS_CHURN_H
#define HAKMEM_TEST_PROCESS_CHURN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHURN_SLOTS = 256 };

/* Which sizes a table asks for. CHURN_SMALL touches little memory, so that a fork stays cheap. */
enum churn_sizes { CHURN_SMALL, CHURN_MIXED };

struct churn_block {
  unsigned char *start;
  size_t bytes;
};

struct churn_table {
  enum churn_sizes sizes;
  uint64_t random; /* state of check_random */
  struct churn_block blocks[CHURN_SLOTS];
};

/* The pattern identifies a block by address and size, so that overlap and loss are both noticed. */
void churn_block_fill(struct churn_block block);
void churn_block_verify(struct churn_block block);

void churn_table_init(struct churn_table *table, enum churn_sizes sizes, uint64_t seed);
/* Takes `steps` random steps: allocate, reallocate or free. Each step first verifies the slot's old block. */
void churn_table_steps(struct churn_table *table, unsigned steps);
/* Fills every slot. */
void churn_table_fill(struct churn_table *table);
/* Verifies and frees every block. */
void churn_table_clear(struct churn_table *table);

/* A thread that steps through its own table until told to stop, then clears it. */
struct churn_thread {
  struct churn_table table;
  _Atomic bool stop;
  _Atomic unsigned rounds; /* grows while the thread makes progress */
  pthread_t id;
};

void churn_thread_start(struct churn_thread *thread, enum churn_sizes sizes, uint64_t seed);
void churn_thread_stop(struct churn_thread *thread);

#endif
