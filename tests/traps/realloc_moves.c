/* realloc makes blocks larger. Their contents stay, even if the system refuses a move. The number of calls and the
 * memory are in proportion to the growth.
 *
 * argument: the property to check */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pattern.h"
#include "prng.h"
#include "trap.h"

#define MIB ((size_t)1 << 20)

static char *grown(char *block, size_t from, size_t to) {
  block = hak_realloc(block, to);
  CHECK(block != NULL && pattern_holds(block, from, from, from));
  return block;
}

static int open_userfaultfd(void) {
  struct uffdio_api api = {.api = UFFD_API};
  int file = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  if (file < 0 || ioctl(file, UFFDIO_API, &api) != 0) {
    trap_skip("no userfaultfd");
  }
  return file;
}

/* A move must not fail because pages are watched by userfaultfd. */
static void watched(void) {
  int file = open_userfaultfd();
  for (size_t at = 0; at < 32 * MIB; at += 31 * MIB / 5) {
    char *block = memset(hak_malloc(32 * MIB), 1, 32 * MIB); /* no thread serves missing pages */
    pattern_fill(block, 32 * MIB, 32 * MIB);
    uintptr_t page = ((uintptr_t)block + at) & -(uintptr_t)65536;
    struct uffdio_register range = {.range = {page < (uintptr_t)block ? page + 65536 : page, 65536},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(ioctl(file, UFFDIO_REGISTER, &range) == 0);
    block = grown(block, 32 * MIB, 200 * MIB);
    (void)ioctl(file, UFFDIO_UNREGISTER, &range.range); /* if it is still there */
    hak_free(block);
  }
}

/* Nor must it fail where a part of the block cannot move or grow. */
static void in_several_mappings(void) {
  for (size_t at = 0; at < 32 * MIB; at += 31 * MIB / 5) {
    char *block = hak_aligned_alloc(65536, 32 * MIB);
    pattern_fill(block, 32 * MIB, 32 * MIB);
    CHECK(mprotect(block + (at & -(size_t)65536), 65536, PROT_READ) == 0);
    block = grown(block, 32 * MIB, 100 * MIB);
    CHECK(mlock(block + (at & -(size_t)65536), 4096) == 0 || errno == ENOMEM || errno == EPERM);
    pattern_fill(block, 100 * MIB, 100 * MIB);
    hak_free(grown(block, 100 * MIB, 200 * MIB));
  }
}

/* Two arrays grow in turn, by a step each. */
static void calls_of(size_t step, size_t end) {
  char *arrays[2] = {NULL, NULL};
  uint64_t before = trap_os_calls();
  for (size_t bytes = step, count = 1; bytes <= end; bytes += step, count++) {
    for (int i = 0; i < 2; i++) {
      arrays[i] = hak_realloc(arrays[i], bytes);
      CHECK(arrays[i] != NULL);
      memcpy(arrays[i] + bytes - sizeof count, &count, sizeof count);
    }
  }
  uint64_t calls = trap_os_calls() - before;
  printf("steps of %zu KiB to %zu MiB: %ju calls\n", step >> 10, end >> 20, (uintmax_t)calls);
  CHECK(calls < 2000);
  for (size_t at = step, count = 1; at <= end; at += step, count++) {
    CHECK(memcmp(arrays[0] + at - sizeof count, &count, sizeof count) == 0);
    CHECK(memcmp(arrays[1] + at - sizeof count, &count, sizeof count) == 0);
  }
  hak_free(arrays[0]);
  hak_free(arrays[1]);
}

static void calls(void) {
  calls_of(4 << 10, 128 * MIB);
  calls_of(64 << 10, 512 * MIB);
  calls_of(5 * MIB, 1024 * MIB);
}

/* Under a limit of address space, one array can use nearly all of it. */
static void limited(void) {
  const size_t limit = 1024 * MIB;
  for (size_t first = MIB / 2; first < limit; first *= 5) {
    CHECK(fflush(stdout) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      size_t bytes = 0;
      char *array = NULL, *larger;
      CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0);
      while ((larger = hak_realloc(array, bytes > 0 ? bytes + MIB : first)) != NULL) {
        array = larger;
        bytes = bytes > 0 ? bytes + MIB : first;
        array[bytes - 1] = 1;
      }
      printf("%zu MiB first, then %zu of %zu\n", first >> 20, bytes >> 20, limit >> 20);
      CHECK(errno == ENOMEM && bytes > limit - limit / 10);
      hak_free(array);
      exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
}

/* Pages that were never written do not become resident. */
static void sparse_from(size_t bytes, size_t larger) {
  enum { BLOCKS = 100 };
  static char *blocks[BLOCKS];
  size_t before = trap_rss_kib();
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(bytes);
    CHECK(blocks[i] != NULL);
    blocks[i][0] = blocks[i][bytes / 2] = (char)i;
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_realloc(blocks[i], larger);
    CHECK(blocks[i] != NULL && blocks[i][0] == (char)i && blocks[i][bytes / 2] == (char)i);
  }
  size_t kib = trap_rss_kib() - before;
  printf("%d blocks of %zu KiB, now %zu: %zu KiB resident\n", BLOCKS, bytes >> 10, larger >> 10, kib);
  CHECK(kib < 3 * 4 * BLOCKS + 1024);
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
}

static void sparse(void) {
  sparse_from(MIB, MIB + MIB / 10);
  sparse_from(MIB, 2 * MIB);
  sparse_from(MIB / 2, MIB);
  sparse_from(2 * MIB + MIB / 2, 5 * MIB);
}

static atomic_bool over;

/* A thread maps and unmaps ranges of its own, whose contents must not change. */
static void *map_and_unmap(void *argument) {
  enum { RANGES = 16 };
  char *ranges[RANGES] = {NULL};
  size_t bytes[RANGES], seed = (size_t)(uintptr_t)argument;
  Prng prng = prng_seeded(seed);
  while (!over) {
    size_t i = prng_below(&prng, RANGES);
    if (ranges[i]) {
      CHECK(ranges[i][0] == (char)(seed + i) && ranges[i][bytes[i] - 1] == (char)(seed + i));
      CHECK(munmap(ranges[i], bytes[i]) == 0);
      ranges[i] = NULL;
      continue;
    }
    bytes[i] = (size_t)4096 << prng_below(&prng, 12);
    ranges[i] = mmap(NULL, bytes[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(ranges[i] != MAP_FAILED);
    ranges[i][0] = ranges[i][bytes[i] - 1] = (char)(seed + i);
  }
  return NULL;
}

static void *grow_and_free(void *argument) {
  for (size_t round = 0; round < 12; round++) {
    char *block = hak_malloc(MIB);
    size_t bytes = MIB;
    pattern_fill(block, MIB, MIB);
    for (size_t more = 1; more < 12; more++) {
      size_t larger = bytes + more * (MIB / 2 + round * 50000);
      block = grown(block, bytes, larger);
      bytes = larger;
      pattern_fill(block, bytes, bytes);
      if (more % 4 == 0) {
        bytes -= bytes / 3;
        block = hak_realloc(block, bytes);
        CHECK(block != NULL);
        pattern_fill(block, bytes, bytes);
      }
    }
    hak_free(block);
  }
  return argument;
}

static void beside_others(void) {
  pthread_t mapping[2], growing[2];
  for (uintptr_t i = 0; i < 2; i++) {
    CHECK(pthread_create(&mapping[i], NULL, map_and_unmap, (void *)(i + 1)) ==
          0); /* NOLINT(performance-no-int-to-ptr) */
    CHECK(pthread_create(&growing[i], NULL, grow_and_free, NULL) == 0);
  }
  for (int i = 0; i < 2; i++) {
    CHECK(pthread_join(growing[i], NULL) == 0);
  }
  over = true;
  for (int i = 0; i < 2; i++) {
    CHECK(pthread_join(mapping[i], NULL) == 0);
  }
}

/* Each block is written as it grows. The memory that the block before left must be reused. */
static void kept(void) {
  const size_t end = 64 * MIB;
  size_t before = trap_rss_kib(), most = 0;
  for (int round = 0; round < 4; round++) {
    char *array = NULL;
    for (size_t has = 0, bytes = 1024; bytes <= end; has = bytes, bytes *= 2) {
      array = hak_realloc(array, bytes);
      CHECK(array != NULL);
      memset(array + has, 1, bytes - has);
    }
    size_t kib = trap_rss_kib() - before;
    most = kib > most ? kib : most;
    hak_free(array);
  }
  printf("%zu MiB: %zu KiB resident\n", end >> 20, most);
  CHECK(most < (end + end / 4) >> 10);
}

int main(int count, char **arguments) {
  static const struct {
    const char *name;
    void (*look)(void);
  } looks[] = {{"watched", watched}, {"several", in_several_mappings}, {"calls", calls}, {"limited", limited},
               {"sparse", sparse},   {"beside", beside_others},        {"kept", kept}};
  CHECK(count == 2);
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
