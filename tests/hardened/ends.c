/* The end of a process in the middle of a change, while the profile checks every block. Usage: ends CASE BYTES.
 * thread: a thread that only uses blocks of this size goes on while the process ends; signal: a handler ends it;
 * many: the same, while hundreds of blocks come and go, so that it often meets slabs that change;
 * fork: the parent's thread is in the middle of a change; unforked: the program keeps a block's pages from its child;
 * protected: it takes access to blocks' pages away.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { CHILDREN = 40, CHILDREN_OF_MANY = 120, MANY_BLOCKS = 300, PAGE = 4096 };

static size_t bytes;
static _Atomic int started;

static void *use(void *unused) {
  (void)unused;
  void *kept = NULL;
  for (size_t i = 0; i < SIZE_MAX; i++) {
    char *volatile block = malloc(bytes);
    memset(block, 7, bytes);
    started = 1;
    free(block);
    kept = realloc(kept, bytes - i % 2000);
  }
  return kept;
}

static void use_many(void) {
  for (size_t times = 0; times < SIZE_MAX; times++) {
    char *volatile blocks[MANY_BLOCKS];
    for (int i = 0; i < MANY_BLOCKS; i++) {
      blocks[i] = malloc(bytes);
      memset(blocks[i], 7, bytes);
    }
    for (int i = 0; i < MANY_BLOCKS; i++) {
      free(blocks[i]);
    }
  }
}

static void start_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, use, NULL) == 0);
  while (!started) {
    usleep(100);
  }
}

static void end(int unused) {
  (void)unused;
  exit(0);
}

static void end_soon(int microseconds) {
  struct itimerval timer = {.it_value = {0, microseconds}};
  CHECK(signal(SIGALRM, end) != SIG_ERR && setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* Blocks that begin with a page, whose pages have no access when they are freed, resized, or the process ends. */
static void protect(void) {
  char *blocks[3];
  for (int i = 0; i < 3; i++) {
    CHECK(posix_memalign((void **)&blocks[i], PAGE, bytes) == 0);
    memset(blocks[i], 7, bytes);
    CHECK(mprotect(blocks[i], (bytes + PAGE - 1) / PAGE * PAGE, PROT_NONE) == 0);
  }
  free(blocks[0]);
  CHECK((blocks[1] = realloc(blocks[1], 3 * bytes)) != NULL && blocks[1][0] == 7 && blocks[1][bytes - 1] == 7);
}

static void in_child(const char *name, int child) {
  if (strcmp(name, "thread") == 0) {
    start_thread();
    usleep((useconds_t)child * 10);
  } else if (strcmp(name, "signal") == 0) {
    end_soon(1000 + child * 10);
    use(NULL);
  } else if (strcmp(name, "many") == 0) {
    end_soon(1000 + child * 37);
    use_many();
  }
  exit(0);
}

int main(int count, char **arguments) {
  CHECK(count == 3);
  const char *name = arguments[1];
  bytes = strtoul(arguments[2], NULL, 10);
  if (strcmp(name, "fork") == 0) {
    start_thread();
  } else if (strcmp(name, "unforked") == 0) {
    char *volatile block = malloc(bytes);
    uintptr_t first = (uintptr_t)block & -(uintptr_t)PAGE,
              last = ((uintptr_t)block + bytes + PAGE - 1) & -(uintptr_t)PAGE;
    CHECK(madvise((void *)first, last - first, MADV_DONTFORK) == 0);
  } else if (strcmp(name, "protected") == 0) {
    protect();
    exit(0);
  }
  for (int child = 0; child < (strcmp(name, "many") == 0 ? CHILDREN_OF_MANY : CHILDREN); child++) {
    int status;
    pid_t id = fork();
    if (id == 0) {
      in_child(name, child);
    }
    CHECK(id > 0 && waitpid(id, &status, 0) == id && status == 0);
  }
  _exit(0);
}
