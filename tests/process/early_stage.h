/* One stage of a process's life allocates or frees, then writes its letter on standard output. */
#ifndef HAKMEM_TEST_PROCESS_EARLY_STAGE_H
#define HAKMEM_TEST_PROCESS_EARLY_STAGE_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EARLY_BLOCKS = 40 };

struct early_blocks {
  unsigned char *start[EARLY_BLOCKS];
};

/* Sizes grow by half, from a few bytes to a block with its own mapping. */
static inline size_t early_bytes(unsigned number) {
  size_t bytes = 3;
  for (unsigned i = 0; i < number; i++)
    bytes += bytes / 2;
  return bytes < 3000000 ? bytes : 3000000;
}

static inline void early_allocate(struct early_blocks *blocks) {
  for (unsigned i = 0; i < EARLY_BLOCKS; i++) {
    size_t bytes = early_bytes(i);
    blocks->start[i] = malloc(bytes);
    if (blocks->start[i] == NULL)
      abort();
    blocks->start[i][0] = (unsigned char)i;
    blocks->start[i][bytes - 1] = (unsigned char)i;
  }
}

static inline void early_free(struct early_blocks *blocks) {
  for (unsigned i = 0; i < EARLY_BLOCKS; i++) {
    if (blocks->start[i][0] != i || blocks->start[i][early_bytes(i) - 1] != i)
      abort();
    free(blocks->start[i]);
  }
}

static inline void early_report(char letter) {
  if (write(STDOUT_FILENO, &letter, 1) != 1)
    abort();
}

#endif
