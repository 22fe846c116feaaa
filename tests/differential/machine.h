/* Duty: run one small allocation program, the same on every allocator, and print what it cost.
 *
 * The program is a file of words of 64 bits: a header, then operations (programs.py writes both). It works on a table
 * of slots. A slot is empty or holds one block, whose contents are known. The machine itself uses no heap: it maps its
 * memory before the program starts. Each thread has a context of its own. The slots are shared; an operation may ask
 * for a lock on each slot. */
#ifndef HAK_DIFFERENTIAL_MACHINE_H
#define HAK_DIFFERENTIAL_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* programs.py reads these rows, and uses their order. */
enum code {
  LOOP,
  ALLOC,
  FREE,
  RESIZE,
  CHURN,
  THREADS,
  FORK,
  PAUSE,
  TRIM,
  EXCHANGE,
  BUSY,
  EXITS,
  SHORT,
  REFUSE,
  CRASH,
  LOCK,
  MAPS,
  RESERVE,
  STORM,
  OPEN,
  APART
};
enum how { MALLOC, CALLOC, MEMALIGN, ALIGNED, VALLOC, REGION };
enum touch { NONE, START, ENDS, PAGES, WHOLE };
enum order { FIFO, LIFO, RANDOM };
enum way { FORKED, VFORKED, CLONED };
enum shortage { LIMITED, DENIED };
enum misuse { TWICE, INSIDE, LATE };

struct header {
  int64_t slots, rounds, seconds, idle_ms, operations; /* seconds: of processor time */
};

/* `body`: number of the following operations that belong to this one. ALLOC: the block in slot i has
 * x + i * y + n * z bytes in iteration n of the innermost loop. machine.c explains the fields of the other
 * operations. */
struct op {
  int64_t code, body, first, shift, count, x, y, z, how, touch;
};

struct slot {
  unsigned char *block;
  size_t bytes;
  uint32_t seed;
  uint8_t touch;
  atomic_flag busy;
};

struct context {
  int64_t offset;    /* added to every slot's number */
  int64_t iteration; /* of the innermost loop */
  uint64_t chance;   /* state of the random numbers */
  const struct op *op;
};

extern struct header header;
extern const struct op *operations;
extern struct slot *slots;

uint64_t next_chance(struct context *context);
size_t between(struct context *context, int64_t low, int64_t high);
struct slot *slot_at(const struct context *context, const struct op *op, int64_t i);
void fail(const char *what);
/* Wait for a child, which must end with status 0. */
void await_child(int child);

/* blocks.c: each call is timed. A refused request leaves the slot unchanged. */
void slot_fill(struct context *context, struct slot *slot, int64_t how, size_t bytes, int64_t touch);
void slot_empty(struct context *context, struct slot *slot);
void slot_check(const struct slot *slot);
void slot_resize(struct context *context, struct slot *slot, size_t target, int64_t step, int64_t percent);

/* Memory for the machine itself. No plan of tests/fault/inject.c makes this fail. */
void *own_map(size_t bytes, int protection, int flags, int file);

/* measure.c */
void measure_start(void);
void measure_round(int64_t round);
uint64_t measure_before(size_t bytes);
void measure_after(const struct op *op, uint64_t start);
void measure_refusal(void);
void measure_live(int64_t bytes);
/* Call it before each round of a run of so many seconds. False: the time is over. */
bool measure_time(int64_t round, int64_t seconds);
void measure_print(int file);

/* crash.c: whether hakmem serves malloc. Some promises are its own. */
bool is_ours(void);
/* A child that commits a misuse and has a handler of SIGABRT that allocates. x: bytes; y: the misuse; z: in a thread */
void crash(const struct op *op);

/* trials.c: operations that check contents while something else goes on, and after it. */
void busy(struct context *context, const struct op *op);
void exits(struct context *context, const struct op *op);
void fall_short(struct context *context, const struct op *op);
void refuse(struct context *context, const struct op *op);

/* regions.c: threads with regions of their own. */
void apart(struct context *context, const struct op *op);
/* From the calling thread's region: a request of the kind REGION. */
void *region_take(size_t bytes);

/* hardship.c: sets an adverse condition that lasts from then on. */
void hardship(const struct op *op);

#endif
