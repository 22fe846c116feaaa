/* The program that the option tests run. It works, then reports the data that its arguments ask for.
 * arguments: a command
 *   work            allocate and free with verified contents in two threads
 *   get NAME        print an option's value
 *   set NAME VALUE  print the result of hak_option_set by name
 *   limit           allocate 1 MiB blocks until that fails, free all, and do it again; print the counts
 *   crime           free a pointer that is no block
 *   live MIB STEPS  keep so much memory live, and replace its blocks STEPS times */
#include <errno.h>
#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "churn.h"

enum { STEPS = 30000, LIMIT_BLOCKS = 4096, LIMIT_BLOCK_BYTES = 1 << 20 };

static int work(void) {
  static struct churn_thread thread;
  static struct churn_table table;
  churn_thread_start(&thread, CHURN_MIXED, 1);
  churn_table_init(&table, CHURN_MIXED, 2);
  churn_table_steps(&table, STEPS);
  churn_table_clear(&table);
  churn_thread_stop(&thread);
  return puts("worked") >= 0 ? 0 : 1;
}

static const char *name_of(int error) {
  switch (error) {
  case 0:
    return "0";
  case ENOENT:
    return "ENOENT";
  case EINVAL:
    return "EINVAL";
  case EPERM:
    return "EPERM";
  default:
    return "other";
  }
}

static int get(const char *name) {
  char value[256];
  int error = hak_option_get(name, value, sizeof value);
  return puts(error == 0 ? value : name_of(error)) >= 0 ? 0 : 1;
}

static int set(const char *name, const char *value) {
  return puts(name_of(hak_option_set(name, value))) >= 0 ? 0 : 1;
}

static unsigned allocate_to_limit(void) {
  static char *blocks[LIMIT_BLOCKS];
  unsigned count = 0;
  errno = 0;
  while (count < LIMIT_BLOCKS && (blocks[count] = malloc(LIMIT_BLOCK_BYTES)) != NULL) {
    blocks[count][0] = 1;
    count++;
  }
  CHECK(count < LIMIT_BLOCKS);
  CHECK(errno == ENOMEM);
  for (unsigned i = 0; i < count; i++)
    free(blocks[i]);
  return count;
}

static int limit(void) {
  unsigned first = allocate_to_limit();
  unsigned second = allocate_to_limit();
  void *small = malloc(100);
  CHECK(small != NULL);
  free(small);
  return printf("%u %u\n", first, second) > 0 ? 0 : 1;
}

static int crime(void) {
  static long word[8];
  void *pointer = &word[2];
  __asm__ volatile("" : "+r"(pointer)); /* keeps the compiler from seeing the misuse */
  free(pointer);
  return 0;
}

/* Blocks of 1 to 4000 bytes, wholly written: resident memory is what the limit counts. */
static int live(unsigned mebibytes, unsigned steps) {
  enum { AVERAGE_BYTES = 2000, MAX_BYTES = 2 * AVERAGE_BYTES };
  size_t slots = ((size_t)mebibytes << 20) / AVERAGE_BYTES;
  struct churn_block *blocks = calloc(slots, sizeof *blocks);
  uint64_t random = 88172645463325252u;
  CHECK(blocks != NULL);
  for (size_t step = 0; step < slots + steps; step++) {
    struct churn_block *block = &blocks[step < slots ? step : check_random(&random) % slots];
    if (block->start != NULL) {
      churn_block_verify(*block);
      free(block->start);
    }
    block->bytes = 1 + check_random(&random) % MAX_BYTES;
    block->start = malloc(block->bytes);
    CHECK(block->start != NULL);
    memset(block->start, 1, block->bytes);
    churn_block_fill(*block);
  }
  for (size_t i = 0; i < slots; i++)
    free(blocks[i].start);
  free(blocks);
  return puts("worked") >= 0 ? 0 : 1;
}

int main(int count, char **arguments) {
  const char *command = count > 1 ? arguments[1] : "";
  check_served();
  if (strcmp(command, "work") == 0)
    return work();
  if (strcmp(command, "get") == 0 && count == 3)
    return get(arguments[2]);
  if (strcmp(command, "set") == 0 && count == 4)
    return set(arguments[2], arguments[3]);
  if (strcmp(command, "limit") == 0)
    return limit();
  if (strcmp(command, "crime") == 0)
    return crime();
  if (strcmp(command, "live") == 0 && count == 4) {
    return live(check_count(arguments[2]), check_count(arguments[3]));
  }
  fprintf(stderr, "probe: unknown command '%s'\n", command);
  return 2;
}
