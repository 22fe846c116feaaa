/* io_uring reads into pinned blocks, and the program caches the pinned ranges, as network and file libraries do. A
 * freed block stays pinned, since it may be allocated again, until a watcher of libc's functions reports that its pages
 * are removed. If pages were removed without a report, the kernel would write to the old ones and the program would
 * read the new ones. */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { READS = 1200, PINS = 12, LIVE = 16, SKIPPED = 77, FILE_BYTES = 1 << 20 };

typedef struct {
  char *from;
  size_t bytes; /* 0: nothing is pinned */
} Pin;

static Pin pins[PINS];
static struct io_uring ring;
static unsigned long hits, lost;
static size_t most = 512 << 10; /* most bytes of a block; less if the process may lock only little memory */

static void update(unsigned pin, char *from, size_t bytes) {
  struct iovec range = {from, bytes};
  __u64 tag = 0;
  CHECK(io_uring_register_buffers_update_tag(&ring, pin, &range, &tag, 1) == 1);
  pins[pin] = (Pin){from, bytes};
}

/* Called by the watcher, before the pages go. */
static void on_gone(void *at, size_t bytes) {
  int saved = errno;
  for (unsigned i = 0; i < PINS; i++) {
    if (pins[i].bytes && pins[i].from < (char *)at + bytes && (char *)at < pins[i].from + pins[i].bytes) {
      update(i, NULL, 0);
      lost++;
    }
  }
  errno = saved;
}

static unsigned pin_of(char *block, size_t bytes) {
  static unsigned turn;
  for (unsigned i = 0; i < PINS; i++) {
    if (pins[i].from == block && pins[i].bytes >= bytes) {
      hits++;
      return i;
    }
  }
  unsigned pin = turn++ % PINS;
  update(pin, block, bytes);
  return pin;
}

static void read_into(char *block, size_t bytes, int file, size_t offset) {
  struct io_uring_cqe *done;
  struct io_uring_sqe *wanted = io_uring_get_sqe(&ring);
  io_uring_prep_read_fixed(wanted, file, block, (unsigned)bytes, offset, (int)pin_of(block, bytes));
  CHECK(io_uring_submit_and_wait(&ring, 1) == 1 && io_uring_wait_cqe(&ring, &done) == 0);
  CHECK(done->res == (int)bytes);
  io_uring_cqe_seen(&ring, done);
}

static char content(size_t at) {
  return (char)(at * 2654435761U >> 13 | 1); /* never 0, unlike an untouched page */
}

static int make_file(void) {
  char name[] = "/tmp/hakmem-uring-XXXXXX", *bytes = malloc(FILE_BYTES);
  int file = mkstemp(name);
  CHECK(file >= 0 && bytes && unlink(name) == 0);
  for (size_t i = 0; i < FILE_BYTES; i++) {
    bytes[i] = content(i);
  }
  CHECK(write(file, bytes, FILE_BYTES) == FILE_BYTES);
  free(bytes);
  return file;
}

static unsigned draw(void) {
  static unsigned long long state = 36;
  state = state * 6364136223846793005U + 1442695040888963407U;
  return (unsigned)(state >> 33);
}

static void use(int file) {
  static char *live[LIVE];
  for (int i = 0; i < READS; i++) {
    char **slot = &live[draw() % LIVE];
    size_t bytes = most >> draw() % 4, offset = draw() % (FILE_BYTES - bytes);
    free(*slot);
    if (i % 20 == 0) {
      malloc_trim(0);
    }
    if (i % 50 == 0) {
      nanosleep(&(struct timespec){0, 3000000}, NULL); /* so that idle memory decays */
    }
    CHECK((*slot = malloc(bytes)) != NULL);
    memset(*slot, 0, bytes); /* makes the new pages resident */
    read_into(*slot, bytes, file, offset);
    for (size_t at = 0; at < bytes; at++) {
      CHECK((*slot)[at] == content(offset + at));
    }
  }
}

static void skip(const char *why, int error) {
  printf("skipped: %s: %s\n", why, strerror(error));
  exit(SKIPPED);
}

int main(void) {
  struct rlimit locked;
  void (*watch)(void (*)(void *, size_t));
  *(void **)&watch = dlsym(RTLD_DEFAULT, "hook_watch");
  CHECK(watch != NULL);
  alarm(100);
  int error = io_uring_queue_init(4, &ring, 0);
  if (error) {
    skip("this kernel or its sandbox has no io_uring", -error);
  }
  getrlimit(RLIMIT_MEMLOCK, &locked);
  while (geteuid() != 0 && most > 16 << 10 && locked.rlim_cur / 2 < most * PINS) {
    most /= 2;
  }
  error = io_uring_register_buffers_sparse(&ring, PINS);
  if (error) {
    skip("this kernel's io_uring has no buffers that change", -error);
  }
  int file = make_file();
  watch(on_gone);
  use(file);
  watch(NULL);
  printf("%d reads, %lu into pinned blocks, %lu unpinned\n", READS, hits, lost);
  CHECK(hits > 20 && lost > 20);
  return 0;
}
