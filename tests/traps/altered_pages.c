/* The program protects the pages of blocks, or excludes them from forked children, and frees the blocks without undoing
 * this. The next owner can write to the pages, and so can its forked child. The library restores the pages once: after
 * that, blocks of the class need no system call.
 *
 * argument: the change to the pages */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap.h"

enum { BLOCKS = 30, PAGE = 4096, INSTALL_GUARD = 102 };

static const char *how;
static char *blocks[BLOCKS];
static size_t count;

/* False: the system does not offer it. */
static bool alter(void *at, size_t bytes) {
  if (strcmp(how, "read-only") == 0) {
    return mprotect(at, bytes, PROT_READ) == 0;
  }
  if (strcmp(how, "no-access") == 0) {
    return mprotect(at, bytes, PROT_NONE) == 0;
  }
  if (strcmp(how, "not-forked") == 0) {
    return madvise(at, bytes, MADV_DONTFORK) == 0;
  }
  if (strcmp(how, "wiped") == 0) {
    return madvise(at, bytes, MADV_WIPEONFORK) == 0;
  }
  return madvise(at, bytes, INSTALL_GUARD) == 0;
}

static void allocate(size_t bytes) {
  for (size_t i = 0; i < count; i++) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    for (size_t at = 0; at < bytes; at += PAGE / 4) {
      blocks[i][at] = (char)(i | 1);
    }
  }
}

static void verify_and_free(size_t bytes) {
  for (size_t i = 0; i < count; i++) {
    for (size_t at = 0; at < bytes; at += PAGE / 4) {
      CHECK(blocks[i][at] == (char)(i | 1));
    }
    hak_free(blocks[i]);
  }
}

static void in_a_child(size_t bytes) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    verify_and_free(bytes);
    allocate(bytes);
    verify_and_free(bytes);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Frees the blocks in a thread that began after the change. */
static void *free_all(void *argument) {
  for (size_t i = 0; i < count; i++) {
    hak_free(blocks[i]);
  }
  return argument;
}

/* Changes the pages behind the first `from` bytes. If `from` > 0, each block is resized before it is freed. */
static void blocks_of(size_t bytes, size_t alignment, size_t from) {
  pthread_t thread;
  count = bytes > (1 << 20) ? BLOCKS / 6 : BLOCKS;
  for (size_t i = 0; i < count; i++) {
    blocks[i] = hak_aligned_alloc(alignment, bytes);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, bytes);
    if (!alter(blocks[i] + from, (bytes & -(size_t)PAGE) - from)) {
      trap_skip("not offered");
    }
  }
  for (size_t i = 0; i < count && from > 0; i++) {
    blocks[i] = hak_realloc(blocks[i], bytes + bytes / 2);
    CHECK(blocks[i] != NULL);
  }
  CHECK(pthread_create(&thread, NULL, free_all, NULL) == 0 && pthread_join(thread, NULL) == 0);
  allocate(bytes);
  in_a_child(bytes);
  verify_and_free(bytes);
}

/* Memory that decays meanwhile is given back, but only once. */
static void then_no_calls(size_t bytes) {
  enum { TIMES = 100, OTHERS = 20, ROUNDS = 5 };
  uint64_t calls = UINT64_MAX;
  for (int round = 0; round < ROUNDS && calls > OTHERS; round++) {
    uint64_t before = trap_os_calls();
    for (int i = 0; i < TIMES; i++) {
      hak_free(hak_malloc(bytes));
    }
    calls = trap_os_calls() - before;
  }
  CHECK(calls <= OTHERS);
}

int main(int argument_count, char **arguments) {
  static const size_t sizes[] = {4096, 10240, 32768, 65536, 500000, 1 << 20, 2 << 20, 5 << 20, 6500000};
  CHECK(argument_count == 2);
  how = arguments[1];
  trap_watchdog(60);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    blocks_of(sizes[i], PAGE, 0);
    if (sizes[i] > PAGE && how[0] != 'n' && how[0] != 'g') { /* else the contents cannot be copied */
      blocks_of(sizes[i], PAGE, PAGE);
    }
    blocks_of(sizes[i], i % 2 ? 65536 : 2 << 20, 0);
    if (sizes[i] <= 1 << 20) {
      then_no_calls(sizes[i]);
    }
  }
  HAK(hak_check)();
  return 0;
}
