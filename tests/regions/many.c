/* 10,000 regions: what each costs, that threads pay nothing for them, and what a fork of a process with threads costs.
 */
#include "check.h"
#include "hakmem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REGIONS = 10000, KIB = 1024, PAGE = 4 * KIB, CLASSES = 30 };

static hak_region_t *regions[REGIONS];
static pthread_barrier_t begun, may_end;

static size_t resident_bytes(void) {
  size_t all, resident;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file && fscanf(file, "%zu %zu", &all, &resident) == 2 && fclose(file) == 0);
  return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t metadata_bytes(void) {
  static char text[1 << 16];
  CHECK(hak_stats_json(text, sizeof text) > 0);
  const char *row = strstr(text, "\"metadata_bytes\":");
  CHECK(row);
  return strtoul(strchr(row, ':') + 1, NULL, 10);
}

static void *work(void *unused) {
  void *blocks[CLASSES];
  for (size_t i = 0; i < CLASSES; i++) {
    CHECK((blocks[i] = hak_malloc(i * 40 + 1)) != NULL);
  }
  pthread_barrier_wait(&begun);
  pthread_barrier_wait(&may_end);
  for (size_t i = 0; i < CLASSES; i++) {
    hak_free(blocks[i]);
  }
  return unused;
}

/* Bytes that a thread adds to the heap's own memory. */
static size_t price_of_thread(pthread_t *thread) {
  size_t before = metadata_bytes();
  CHECK(pthread_create(thread, NULL, work, NULL) == 0);
  pthread_barrier_wait(&begun);
  return metadata_bytes() - before;
}

static void end(pthread_t thread) {
  pthread_barrier_wait(&may_end);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void make_regions(void) {
  size_t before = resident_bytes();
  for (int i = 0; i < REGIONS; i++) {
    CHECK((regions[i] = hak_region_new(NULL)) != NULL);
  }
  size_t made = resident_bytes();
  CHECK(made - before <= (size_t)REGIONS * KIB);
  for (int i = 0; i < REGIONS; i++) {
    memset(hak_region_malloc(regions[i], 100), 1, 100);
  }
  /* a page, the bits of the span, and its part of the descriptors of chunks */
  CHECK(resident_bytes() - made <= (size_t)REGIONS * (PAGE + 2 * KIB));
}

static long faults(int who) {
  struct rusage usage;
  CHECK(getrusage(who, &usage) == 0);
  return usage.ru_minflt;
}

/* Each region's lock is taken before and given back after, in the parent and in the child, which copies its page. */
static void fork_inside(void) {
  long most = REGIONS * KIB / PAGE + 500, before = faults(RUSAGE_SELF);
  CHECK(hak_region_enter(regions[REGIONS / 2]));
  pid_t child = fork();
  if (child == 0) {
    void *block = hak_malloc(100);
    bool inside = hak_region_of(block) == regions[REGIONS / 2];
    hak_region_leave(regions[REGIONS / 2]);
    hak_free(block);
    _exit(inside && hak_region_of(block = hak_malloc(100)) == NULL && faults(RUSAGE_SELF) <= most ? 0 : 1);
  }
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  hak_region_leave(regions[REGIONS / 2]);
  CHECK(faults(RUSAGE_SELF) - before <= most);
}

int main(void) {
  pthread_t first, second;
  CHECK(pthread_barrier_init(&begun, NULL, 2) == 0 && pthread_barrier_init(&may_end, NULL, 2) == 0);
  size_t alone = price_of_thread(&first);
  end(first);
  hak_trim(0);
  make_regions();
  CHECK(price_of_thread(&second) <= alone + REGIONS); /* a mixed slab more, but nothing for each region */
  fork_inside();
  end(second);
  hak_check();
  for (int i = 0; i < REGIONS; i++) {
    hak_region_destroy(regions[i]);
  }
  return 0;
}
