/* Starts a heap profile and writes it in every format. Any system call may fail (inject.h). The output is like that of
 * workload.c.
 *
 * Whichever call fails, the program does not crash. A profile is complete, or the call returns an error. errno is
 * unchanged, and no descriptor is left open. When the failures end, every format can be written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "hakmem.h"
#include "inject.h"
#include "inspect/sample.h"
#include "names.h"

enum { BLOCKS = 2000, FILE_BYTES = 1 << 20, MEAN_BYTES = 2000 };

static const char *const forms[] = {"p.pb.gz", "p.pb"};
static void *blocks[BLOCKS];
static unsigned char text[FILE_BYTES];

static void allocate(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
    blocks[i] = hak_malloc(i % 97 == 0 ? i * 1000 : i);
  }
}

static void release(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static size_t little_endian(const unsigned char *at, size_t bytes) {
  size_t n = 0;
  for (size_t i = 0; i < bytes; i++) {
    n |= (size_t)at[i] << 8 * i;
  }
  return n;
}

/* Whether a gzip file of stored blocks is complete: its blocks hold as many bytes as its last field says. */
static bool is_whole_gzip(size_t bytes) {
  size_t at = 10, held = 0;
  bool last = false;
  while (!last && at + 5 <= bytes) {
    size_t length = little_endian(text + at + 1, 2);
    CHECK(length == (~little_endian(text + at + 3, 2) & 0xffff));
    last = text[at] == 1;
    held += length;
    at += 5 + length;
  }
  return last && at + 8 == bytes && little_endian(text + at + 4, 4) == held;
}

static void is_whole(const char *name) {
  FILE *file = fopen(name, "rb");
  CHECK(file);
  size_t bytes = fread(text, 1, sizeof text, file);
  CHECK(fclose(file) == 0 && bytes < sizeof text);
  CHECK(bytes > 0 && (strcmp(name, "p.pb") == 0 || is_whole_gzip(bytes)));
}

static int next_descriptor(void) {
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0 && close(fd) == 0);
  return fd;
}

static void write_all_forms(void) {
  int fd = next_descriptor();
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    uint64_t failed = inject_failures();
    unlink(forms[i]);
    errno = ERANGE;
    int error = hak_profile_write(forms[i]);
    CHECK(errno == ERANGE);
    CHECK(error == 0 || inject_failures() > failed);
    if (error == 0) {
      is_whole(forms[i]);
    }
  }
  CHECK(next_descriptor() == fd);
}

int main(void) {
  char folder[] = "/tmp/hak-writing-XXXXXX", command[64];
  CHECK(mkdtemp(folder) && chdir(folder) == 0);
  hak_sample_seed(1); /* so that every run makes the same calls */
  CHECK(hak_profile_start(MEAN_BYTES) == 0 || inject_failures() > 0);
  allocate();
  write_all_forms();
  inject_stop();
  CHECK(hak_profile_start(MEAN_BYTES) == 0);
  allocate();
  write_all_forms();
  CHECK(hak_samples.taken > 100);
  hak_profile_stop();
  release();
  hak_thread_flush();
  hak_check();
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(chdir("/") == 0 && system(command) == 0); /* NOLINT(concurrency-mt-unsafe): there is one thread */

#define X(name) printf(#name " %llu\n", (unsigned long long)inject_calls(#name));
  FAULT_CALLS(X)
#undef X
  printf("any %llu\n", (unsigned long long)inject_calls("any"));
  printf("failed %llu\n", (unsigned long long)inject_failures());
  return 0;
}
