/* Two threads free the same block at about the same time. Not every such race can be noticed. If it is not, the heap
 * stays sound: the memory of live blocks is not handed out, and hak_check() finds no error. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "steps.h"
#include "trap.h"

enum {
  BLOCKS = 640,
  BLOCK_BYTES = 1024,
  LIVE = 8,
  AGAIN = LIVE + 44,
  STEPS_MAX = 120,
  OTHERS = 1000,
  YIELDS_MAX = 200
};
enum { NEVER = -1, TRIALS_BY_TWO = 8 };

static char *blocks[BLOCKS];
static atomic_bool asked, starts, answered;
static int wanted_step;
static unsigned *steps_seen; /* shared with the children */

/* Frees a block that is free already, as soon as the other thread asks for it. */
static void *free_again(void *argument) {
  (void)argument;
  while (!atomic_load(&asked)) {
    sched_yield();
  }
  if (wanted_step != NEVER) {
    atomic_store(&starts, true);
    hak_free(hide_pointer(blocks[AGAIN]));
    HAK(hak_thread_flush)();
  }
  atomic_store(&answered, true);
  return NULL;
}

/* Asks the other thread to free the block. If this thread holds a lock that the other one needs, the answer comes
 * later. */
static void ask(unsigned step) {
  if ((int)step == wanted_step) {
    atomic_store(&asked, true);
    while (!atomic_load(&starts)) {
      sched_yield();
    }
    for (int i = 0; i < YIELDS_MAX && !atomic_load(&answered); i++) {
      sched_yield();
    }
    steps_end();
  }
}

static void take_one(void *argument) {
  *(void **)argument = hak_malloc(BLOCK_BYTES);
}

static void free_many(void) {
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(BLOCK_BYTES);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], i, BLOCK_BYTES);
  }
  for (int i = LIVE; i < BLOCKS; i += 2) {
    hak_free(blocks[i]);
  }
  HAK(hak_thread_flush)();
}

/* Frees all but a few blocks, and uses the memory for another size. */
static void check_heap(void) {
  static char *others[OTHERS];
  for (int i = LIVE + 1; i < BLOCKS; i += 2) {
    hak_free(blocks[i]);
  }
  HAK(hak_thread_flush)();
  for (int i = 0; i < OTHERS; i++) {
    others[i] = hak_malloc(700);
    CHECK(others[i] != NULL);
    memset(others[i], 0xee, 700);
  }
  for (int i = 0; i < LIVE; i++) {
    CHECK(blocks[i][0] == (char)i && memcmp(blocks[i], blocks[i] + 1, BLOCK_BYTES - 1) == 0);
  }
  HAK(hak_check)();
}

/* The block is freed again before a certain instruction of a malloc of the same size. */
static void free_while_taken(void *argument) {
  pthread_t thread;
  void *taken = NULL;
  wanted_step = *(int *)argument;
  trap_watchdog(60);
  free_many();
  CHECK(pthread_create(&thread, NULL, free_again, NULL) == 0);
  *steps_seen = steps_run(take_one, &taken, ask);
  atomic_store(&asked, true);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(taken != NULL);
  hak_free(taken);
  check_heap();
}

static pthread_barrier_t begin;

static void *free_it(void *block) {
  pthread_barrier_wait(&begin);
  hak_free(block);
  HAK(hak_thread_flush)();
  return NULL;
}

/* A live block is freed by two threads at once. */
static void free_by_two(void *argument) {
  pthread_t threads[2];
  trap_watchdog(60);
  void *block = hak_malloc(*(size_t *)argument), *other = hak_malloc(*(size_t *)argument);
  CHECK(block != NULL && other != NULL);
  CHECK(pthread_barrier_init(&begin, NULL, 2) == 0);
  for (int i = 0; i < 2; i++) {
    CHECK(pthread_create(&threads[i], NULL, free_it, block) == 0);
  }
  for (int i = 0; i < 2; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  hak_free(other);
  HAK(hak_check)();
}

/* 0 or 1 fault. */
static unsigned judge(const TrapEnd *end, const char *what, size_t number) {
  if (end->status == 0 || trap_is_misuse(end)) {
    return 0;
  }
  fprintf(stderr, "%s %zu: status 0x%x: %s\n", what, number, (unsigned)end->status, end->text);
  return 1;
}

int main(void) {
  static size_t sizes[] = {16, 1000, 20000, 100 << 10, 700 << 10, 5 << 20};
  unsigned faults = 0, survivors = 0, trials = 0;
  trap_watchdog(60);
  steps_seen = mmap(NULL, sizeof *steps_seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(steps_seen != MAP_FAILED);
  TrapEnd end = trap_in_child(free_while_taken, &(int){NEVER});
  CHECK(end.status == 0);
  int steps = (int)*steps_seen, every = 1 + steps / STEPS_MAX;
  for (int step = 0; step < steps; step += every, trials++) {
    end = trap_in_child(free_while_taken, &step);
    survivors += end.status == 0;
    faults += judge(&end, "before instruction", (size_t)step);
  }
  printf("%u of %u trials went unnoticed\n", survivors, trials);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes * TRIALS_BY_TWO; i++) {
    end = trap_in_child(free_by_two, &sizes[i / TRIALS_BY_TWO]);
    faults += judge(&end, "block of bytes", sizes[i / TRIALS_BY_TWO]);
  }
  CHECK(faults == 0);
  return 0;
}
