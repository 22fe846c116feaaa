/* The children of one parent, as a server's that forks for each connection: each hands out its blocks in an order of
 * its own, so that the addresses that one child shows do not tell those of the next. */
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { CHILDREN = 20, SIZES = 4, BLOCKS = 16, WARM = 200 };

static const size_t sizes[SIZES] = {24, 100, 1000, 2000000};

/* Before the forks, blocks of each size come and go. */
static void warm_up(void) {
  static void *blocks[WARM];
  for (int size = 0; size < SIZES; size++) {
    for (int i = 0; i < WARM; i++) {
      CHECK((blocks[i] = malloc(sizes[size])) != NULL);
    }
    for (int i = 0; i < WARM; i++) {
      free(blocks[i]);
    }
  }
}

static void child_main(int pipe_end) {
  uintptr_t addresses[SIZES][BLOCKS];
  for (int size = 0; size < SIZES; size++) {
    for (int i = 0; i < BLOCKS; i++) {
      addresses[size][i] = (uintptr_t)malloc(sizes[size]);
      CHECK(addresses[size][i] != 0);
    }
  }
  CHECK(write(pipe_end, addresses, sizeof addresses) == sizeof addresses);
  _exit(0);
}

int main(void) {
  static uintptr_t addresses[CHILDREN][SIZES][BLOCKS];
  warm_up();
  for (int child = 0; child < CHILDREN; child++) {
    int ends[2], status;
    CHECK(pipe(ends) == 0);
    pid_t id = fork();
    if (id == 0) {
      child_main(ends[1]);
    }
    CHECK(id > 0 && read(ends[0], addresses[child], sizeof addresses[child]) == sizeof addresses[child]);
    CHECK(waitpid(id, &status, 0) == id && status == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
  }
  for (int i = 0; i < CHILDREN * CHILDREN * SIZES; i++) {
    int size = i % SIZES, one = i / SIZES % CHILDREN, other = i / SIZES / CHILDREN;
    CHECK(one == other || memcmp(addresses[one][size], addresses[other][size], sizeof addresses[one][size]) != 0);
  }
  return 0;
}
