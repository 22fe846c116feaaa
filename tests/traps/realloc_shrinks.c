/* Blocks that realloc makes smaller occupy at most a quarter more than the live bytes. To shrink and grow again costs
 * no more system calls and page faults than with a separate mapping for each block.
 *
 * argument: the property to check */
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pattern.h"
#include "trap.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
enum { BLOCKS_MAX = 3000, EDGE = 64 };

static unsigned char *blocks[BLOCKS_MAX];

/* The whole block is written. Later only both ends are checked, to save time. */
static unsigned char *written(unsigned char *block, size_t bytes) {
  CHECK(block != NULL);
  memset(block, 1, bytes);
  pattern_fill(block, EDGE, bytes);
  return block;
}

static unsigned char *shrunk(unsigned char *block, size_t from, size_t to) {
  block = hak_realloc(block, to);
  CHECK(block != NULL && hak_malloc_usable_size(block) >= to);
  CHECK(pattern_holds(block, EDGE, EDGE, from) && block[to - 1] == 1);
  return block;
}

static unsigned char *plain(size_t bytes) {
  return hak_malloc(bytes);
}

static unsigned char *aligned(size_t bytes) {
  return hak_aligned_alloc(bytes > MIB ? 4 * MIB : bytes > 64 * KIB ? 64 * KIB : 256, bytes);
}

/* Grows a block twice, by more than the free memory behind it. */
static unsigned char *grown(size_t bytes) {
  unsigned char *block = hak_malloc(bytes / 5);
  CHECK(block != NULL);
  block = hak_realloc(block, bytes / 2);
  CHECK(block != NULL);
  return hak_realloc(block, bytes);
}

/* The memory of a process that uses only blocks of these sizes: right after they shrank, and after free memory was
 * given back. */
static void look_at(unsigned char *(*make)(size_t bytes), size_t from, size_t step, size_t to, bool apart) {
  size_t count = from > 12 * MIB ? 4 : 48 * MIB / from;
  count = count > BLOCKS_MAX ? BLOCKS_MAX : count;
  size_t before = trap_rss_kib();
  for (size_t i = 0; i < count; i++) {
    blocks[i] = written(make(from), from);
    for (size_t at = from; !apart && at > to; at -= at - to < step ? at - to : step) {
      blocks[i] = shrunk(blocks[i], from, at - to < step ? to : at - step);
    }
  }
  for (size_t i = 0; apart && i < count; i++) {
    blocks[i] = shrunk(blocks[i], from, to);
  }
  size_t live = count * to / KIB, now = trap_rss_kib() - before;
  HAK(hak_trim)(0);
  size_t trimmed = trap_rss_kib() - before;
  printf("%zu blocks of %zu bytes, now %zu: %zu KiB live, %zu resident, %zu without what is free\n", count, from, to,
         live, now, trimmed);
  CHECK(trimmed <= live + live / 4 + 4 * KIB); /* and the allocator's own objects */
  /* The bound includes twice HAKMEM_RETAIN and the allocator's own objects. If blocks are made and shrunk in turn, the
   * memory of one block of the old size may stay as well, since demand may return. Memory of grown blocks stays
   * longer. */
  size_t again = apart ? 0 : (from + from / 4) / KIB;
  CHECK(to < 64 * KIB || make == grown || now <= live + live / 4 + 20 * KIB + again);
  for (size_t i = 0; i < count; i++) {
    hak_free(blocks[i]);
  }
  HAK(hak_check)();
}

static void keeps(unsigned char *(*make)(size_t bytes), size_t from, size_t step, size_t to, bool apart) {
  CHECK(fflush(stdout) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    look_at(make, from, step, to, apart);
    exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* One of `share` pairs. */
static void each_pair(unsigned char *(*make)(size_t bytes), size_t share) {
  static const size_t sizes[] = {1100,    2000,        5000,     20000,    50000,   67000,   100000,
                                 270000,  530000,      1000000,  1050000,  1600000, 2097152, 2200000,
                                 4194304, 9 * 1000000, 17000000, 33 << 20, 64 << 20};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  for (size_t i = 1; i < SIZES; i++) {
    for (size_t j = i % share; j < i; j += share) {
      keeps(make, sizes[i], SIZE_MAX, sizes[j], (i + j) % 2 == 0);
    }
  }
}

static void pairs(void) {
  keeps(plain, 4 * MIB, SIZE_MAX, 1050000, false);
  keeps(plain, MIB, SIZE_MAX, 530000, false);
  each_pair(plain, 3);
}

static void others(void) {
  each_pair(aligned, 3);
  each_pair(grown, 3);
}

static void others_few(void) {
  each_pair(aligned, 7);
  each_pair(grown, 7);
}

static void steps(void) {
  keeps(plain, 4 * MIB, 64 * KIB, 1050000, false);
  keeps(plain, 4 * MIB, 100001, 70000, false);
  keeps(plain, MIB, 5000, 530000, false);
  keeps(plain, 200 * KIB, 1000, 20000, false);
  keeps(grown, 40 * MIB, 300001, 2 * MIB, false);
}

static void limited(void) {
  CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){700 * MIB, 700 * MIB}) == 0);
  keeps(plain, 4 * MIB, SIZE_MAX, 1050000, false);
  keeps(grown, 4 * MIB, SIZE_MAX, 300000, true);
  void *rest = hak_malloc(400 * MIB); /* the memory is available again */
  CHECK(rest != NULL);
  hak_free(rest);
}

static long faults(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

/* The block stays in place if possible. For larger blocks, only the necessary pages are given back and faulted in. */
static void there_and_back(size_t large, size_t small, uint64_t calls_most, long faults_most) {
  enum { ROUNDS = 10000 };
  unsigned char *block = hak_malloc(large);
  CHECK(block != NULL);
  block[0] = 3;
  uint64_t calls = 0;
  long faulted = 0;
  for (size_t i = 0; i <= ROUNDS; i++) {
    block = hak_realloc(block, small);
    CHECK(block != NULL && block[0] == 3);
    block = hak_realloc(block, large);
    CHECK(block != NULL && block[0] == 3);
    block[large - 1] = 1;
    if (i == 0) {
      calls = trap_os_calls();
      faulted = faults();
    }
  }
  calls = trap_os_calls() - calls;
  faulted = faults() - faulted;
  printf("%zu -> %zu -> %zu, %d times: %ju calls, %ld faults\n", large, small, large, ROUNDS, (uintmax_t)calls,
         faulted);
  CHECK(calls <= calls_most * ROUNDS + 100 && faulted <= faults_most * ROUNDS + 100);
  hak_free(block);
}

static void loops(void) {
  there_and_back(8 * MIB, MIB, 0, 0);
  there_and_back(8 * MIB, 1050000, 0, 0);
  there_and_back(8 * MIB, 8 * MIB - 100000, 0, 0);
  there_and_back(3000000, 530000, 1, 1);
  there_and_back(1500000, 600000, 1, 1);
  there_and_back(MIB, 530000, 1, 1);
  there_and_back(40000, 21000, 0, 0);
}

int main(int argc, char **arguments) {
  static const struct {
    const char *name;
    void (*look)(void);
  } looks[] = {{"pairs", pairs}, {"others", others},   {"others_few", others_few},
               {"steps", steps}, {"limited", limited}, {"loops", loops}};
  CHECK(argc == 2);
  trap_watchdog(90);
  for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
    if (strcmp(looks[i].name, arguments[1]) == 0) {
      looks[i].look();
      HAK(hak_check)();
      return 0;
    }
  }
  return 1;
}
