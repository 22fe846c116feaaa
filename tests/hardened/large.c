/* Large blocks of the hardened profile: they grow in place, and freed ones do not use up the address space. A write to
 * a freed small block is found before its page is discarded. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "steps.h"

enum { STEP = 4096, FIRST = 64 << 10, LAST = 4 << 20, BLOCKS = 4000, BYTES = 1000, PART = 25 };

static bool dies(void (*body)(char *), char *block) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);
    body(block);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status);
}

static size_t grown;

static void write_far_behind(char *block) {
  block[grown + STEP] = 1;
}

static void write_behind_and_free(char *block) {
  block[grown] = 1;
  free(block);
}

static void read_freed(char *block) {
  free(block);
  (void)*(volatile char *)hide_pointer(block);
}

static void write_freed(char *block) {
  free(block);
  *(volatile char *)hide_pointer(block + BYTES) = 1;
}

/* The first of the smaller ones, and all from 128 KiB on. */
static void freed_runs_have_no_access(void) {
  for (int i = 0; i < 100; i++) {
    size_t bytes = i == 0 ? 60000 : 200000;
    char *block = malloc(bytes);
    CHECK(block != NULL);
    if (i % 50 == 0) {
      CHECK(dies(read_freed, block) && dies(write_freed, block));
    }
    memset(block, 1, bytes);
    free(block);
  }
}

static void a_block_that_grows_is_seldom_copied(void) {
  char *block = malloc(FIRST);
  int copies = 0;
  CHECK(block != NULL);
  for (size_t i = 0; i < FIRST; i++) {
    block[i] = (char)(i / STEP);
  }
  for (grown = FIRST + STEP; grown <= LAST; grown += STEP) {
    char *next = realloc(block, grown);
    CHECK(next != NULL && malloc_usable_size(next) == grown);
    copies += next != block;
    block = next;
    for (size_t i = grown - STEP; i < grown; i++) {
      CHECK(block[i] == 0);
      block[i] = (char)(i / STEP);
    }
  }
  grown -= STEP;
  CHECK(copies < (LAST - FIRST) / STEP / 8);
  for (size_t i = 0; i < grown; i++) {
    CHECK(block[i] == (char)(i / STEP));
  }
  CHECK(dies(write_far_behind, block) && dies(write_behind_and_free, block));
  free(block);
}

static void freed_blocks_leave_addresses_for_others(void) {
  struct rlimit all, few = {(rlim_t)1 << 30, (rlim_t)1 << 30};
  CHECK(getrlimit(RLIMIT_AS, &all) == 0);
  few.rlim_max = all.rlim_max;
  CHECK(setrlimit(RLIMIT_AS, &few) == 0);
  for (int i = 0; i < 40; i++) {
    char *block = malloc((size_t)100 << 20);
    CHECK(block != NULL);
    free(block);
  }
  CHECK(setrlimit(RLIMIT_AS, &all) == 0);
}

/* Else a server that forks would teach an attacker its choices with every crash. */
static void children_of_one_parent_choose_differently(void) {
  enum { CHILDREN = 20, DISTINCT_MIN = 8 };
  uintptr_t seen[CHILDREN];
  int ends[2], distinct = 0;
  CHECK(pipe(ends) == 0);
  for (int i = 0; i < CHILDREN; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      uintptr_t address = (uintptr_t)malloc(LAST);
      _exit(write(ends[1], &address, sizeof address) != sizeof address);
    }
    int status, known = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(read(ends[0], &seen[i], sizeof seen[i]) == sizeof seen[i]);
    for (int j = 0; j < i; j++) {
      known |= seen[j] == seen[i];
    }
    distinct += !known;
  }
  CHECK(distinct >= DISTINCT_MIN);
}

static void free_it(void *block) {
  free(block);
}

static void nothing(unsigned step) {
  (void)step;
}

/* The free of a block of libc's own heap takes as many instructions, however many large blocks there are. */
static void a_foreign_block_is_not_searched_for(void) {
  enum { LARGE_BLOCKS = 2000 };
  static void *large[LARGE_BLOCKS];
  void *(*allocate)(size_t) = NULL, *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  *(void **)&allocate = libc ? dlsym(libc, "malloc") : NULL;
  if (!STEPS_SUPPORTED || !allocate) {
    return;
  }
  free_it(allocate(BYTES)); /* looks libc's functions up */
  unsigned before = steps_run(free_it, allocate(BYTES), nothing);
  for (int i = 0; i < LARGE_BLOCKS; i++) {
    CHECK((large[i] = malloc(LAST)) != NULL);
  }
  unsigned after = steps_run(free_it, allocate(BYTES), nothing);
  printf("%u instructions, then %u\n", before, after);
  CHECK(after < before + before / 2);
  for (int i = 0; i < LARGE_BLOCKS; i++) {
    free(large[i]);
  }
}

static char *blocks[BLOCKS];

static void write_to_a_freed_block(char *unused) {
  (void)unused;
  for (int i = 0; i < BLOCKS; i++) {
    if (i % PART != 0) { /* the others keep their slabs from going */
      free(blocks[i]);
    }
  }
  blocks[BLOCKS / 2 + 1][BYTES / 2] = 1;
  malloc_trim(0);
  exit(0); /* which checks what the trim did not discard */
}

static void a_write_to_a_freed_block_is_found_by_a_trim(void) {
  for (int i = 0; i < BLOCKS; i++) {
    CHECK((blocks[i] = malloc(BYTES)) != NULL);
  }
  CHECK(dies(write_to_a_freed_block, NULL));
}

/* Where the kernel refuses so many writable bytes, so does malloc. */
static void more_than_the_memory_is_refused(void) {
  size_t bytes = (size_t)1 << 45;
  void *probe = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  errno = 0;
  CHECK(probe != MAP_FAILED || (malloc(hide_size(bytes)) == NULL && errno == ENOMEM));
}

int main(void) {
  freed_runs_have_no_access();
  a_block_that_grows_is_seldom_copied();
  freed_blocks_leave_addresses_for_others();
  a_write_to_a_freed_block_is_found_by_a_trim();
  children_of_one_parent_choose_differently();
  a_foreign_block_is_not_searched_for();
  more_than_the_memory_is_refused();
  return 0;
}
