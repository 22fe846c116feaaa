/* The words in free and fresh blocks never lead malloc astray. A program may read and write free blocks at will, and so
 * know all that can be read there. It still never gets a block that is in use: malloc notices the damage, or returns a
 * free block. Tried in every state of a block: in a thread's cache, in a slab, passed between threads. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap.h"

enum { BLOCKS_MAX = 400, STATES = 4, WAYS = 6 };

static char *blocks[BLOCKS_MAX];
static size_t count; /* few if blocks are large, so that none of their pages goes back to the system */
static char *live;   /* a live block, which malloc must not return */
static _Alignas(4096) char target[8192];

static void *give(void *unused) {
  (void)unused;
  for (size_t i = 0; i < count; i++) {
    free(blocks[i]);
  }
  return NULL;
}

static void give_back(int state) {
  pthread_t thread;
  if (state >= 2) {
    CHECK(pthread_create(&thread, NULL, give, NULL) == 0 && pthread_join(thread, NULL) == 0);
  } else {
    give(NULL);
  }
  if (state % 2 == 1) {
    HAK(hak_thread_flush)();
  }
}

/* Forges a word from the part of the secret that can be read: the block's first word and its address. */
static void forge(char *block, int way, const char *wanted) {
  uint64_t *words = hide_pointer(block);
  uint64_t secret = words[0] ^ (uint64_t)block, to = (uint64_t)wanted;
  const uint64_t pairs[WAYS][2] = {{words[0], to},    {to ^ secret, to}, {to ^ words[0], to},
                                   {to, to ^ secret}, {to, to},          {secret, words[1] ^ to}};
  words[0] = pairs[way][0];
  words[1] = pairs[way][1];
}

/* From the first words and addresses of two free blocks, a program can compute their common key. Fresh blocks share
 * none. */
static void fresh_blocks_share_no_key(size_t bytes) {
  enum { BLOCKS = 100 };
  uint64_t *fresh[BLOCKS];
  for (int round = 0; round < 2; round++) { /* the second round uses blocks that were free */
    for (int i = 0; i < BLOCKS; i++) {
      fresh[i] = hide_pointer(malloc(bytes));
      CHECK(fresh[i]);
      CHECK(i == 0 || (fresh[i][0] ^ (uint64_t)fresh[i]) != (fresh[0][0] ^ (uint64_t)fresh[0]));
    }
    for (int i = 0; i < BLOCKS; i++) {
      memset(fresh[i], 'x', bytes);
      free(fresh[i]);
    }
  }
}

static bool is_forged(const char *block, size_t bytes) {
  bool in_target = block + bytes > target && block < target + sizeof target;
  return in_target || (block + bytes > live && block < live + bytes);
}

static void crime(size_t bytes, int state, int way) {
  live = malloc(bytes);
  count = bytes < 20000 ? BLOCKS_MAX : 40;
  for (size_t i = 0; i < count; i++) {
    blocks[i] = malloc(bytes);
  }
  give_back(state);
  for (size_t i = 0; i < count; i++) {
    forge(blocks[i], way, i % 2 ? live : target + 64);
  }
  for (size_t i = 0; i < 3 * count; i++) {
    char *block = malloc(bytes);
    if (block && is_forged(block, bytes)) {
      _exit(1);
    }
  }
  _exit(0);
}

int main(void) {
  static const size_t sizes[] = {16, 64, 1000, 20000};
  trap_watchdog(100);
  int noticed = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    fresh_blocks_share_no_key(sizes[i]);
    for (int k = 0; k < STATES * WAYS; k++) {
      fflush(NULL);
      pid_t child = fork();
      CHECK(child >= 0);
      if (child == 0) {
        CHECK(freopen("/dev/null", "w", stderr) != NULL);
        crime(sizes[i], k / WAYS, k % WAYS);
      }
      int status;
      CHECK(waitpid(child, &status, 0) == child);
      bool stopped = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
      if (!stopped && status != 0) {
        fprintf(stderr, "%zu bytes, state %d, way %d: status %d\n", sizes[i], k / WAYS, k % WAYS, status);
        return 1;
      }
      noticed += stopped;
    }
  }
  CHECK(noticed > 0);
  return 0;
}
