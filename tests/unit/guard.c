/* Guarded blocks: their places, their number, and how often they catch a bug. */
#include "inspect/guard.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "child.h"
#include "guarded.h"
#include "hakmem.h"
#include "inspect/sample.h"
#include "pages/pagemap.h"
#include "system.h"
#include "system/lock.h"
#include "system/os.h"

/* What lies where */

static void blocks_lie_at_an_end_of_their_page(void) {
  size_t page = hak_os_page_bytes();
  int left = 0, right = 0;
  start();
  for (size_t i = 1; i <= 4000; i++) {
    size_t bytes = i * 37 % (page + 1);
    unsigned char *block = hak_malloc(bytes);
    CHECK(is_guarded(block) && hak_pagemap_class(block) == HAK_CLASS_SAMPLED && (uintptr_t)block % 16 == 0);
    CHECK(hak_malloc_usable_size(block) == (bytes < 16 ? 16 : bytes));
    bool at_start = begins_its_page(block), at_end = (uintptr_t)(block + bytes + 15) / 16 * 16 % page == 0;
    CHECK(at_start || at_end);
    left += at_start;
    right += at_end && !at_start;
    memset(block, (int)i, bytes);
    hak_free(block);
  }
  CHECK(left > 800 && left < 1400 && right > 2500);
  CHECK(hak_records_live() == 0);
}

static void other_blocks_are_as_before(void) {
  start();
  void *large = hak_malloc(hak_os_page_bytes() + 1), *run = hak_malloc(100000), *huge = hak_malloc(3 << 20);
  CHECK(!is_guarded(large) && !is_guarded(run) && !is_guarded(huge));
  hak_free(large);
  hak_free(run);
  hak_free(huge);
  for (size_t alignment = 32; alignment <= 1 << 20; alignment *= 2) {
    char *block = hak_memalign(alignment, alignment / 2 + 1);
    CHECK(block && (uintptr_t)block % alignment == 0 && is_guarded(block) == (alignment <= hak_os_page_bytes()));
    memset(block, 1, hak_malloc_usable_size(block));
    hak_free(block);
  }
  void *empty = hak_malloc(0);
  CHECK(empty && !is_guarded(empty)); /* any use of it faults anyway */
  hak_free(empty);
  for (size_t bytes = 1; bytes < 100; bytes++) {
    char *block = hak_calloc(1, bytes);
    CHECK(is_guarded(block));
    for (size_t i = 0; i < bytes; i++) {
      CHECK(block[i] == 0);
    }
    hak_free(block);
  }
  CHECK(hak_samples.taken == 0 && hak_records_live() == 0); /* no samples of the profile */
  hak_check();
}

static void count_one(const hak_sample_t *sample, void *count) {
  (void)sample;
  ++*(size_t *)count;
}

static void realloc_moves_them(void) {
  start();
  char *block = hak_malloc(100);
  memset(block, 5, 100);
  for (size_t bytes = 120; bytes < 5000; bytes += bytes / 3) {
    char *moved = hak_realloc(block, bytes);
    CHECK(moved != block && memcmp(moved, "\5\5\5\5\5\5\5\5\5\5\5", 10) == 0 && moved[99] == 5);
    block = moved;
  }
  hak_free(block);
  size_t seen = 0;
  block = hak_malloc(50);
  hak_sampler_each(count_one, &seen);
  CHECK(seen == 0 && hak_records_live() == 1);
  hak_free(block);
}

/* The slot that was freed first is used first, so that all other slots are used before one is used again. */
static void a_freed_slot_waits_for_all_others(void) {
  const hak_guard_slot_t *order[SLOTS];
  start();
  for (int i = 0; i < SLOTS; i++) {
    void *block = hak_malloc(10);
    order[i] = hak_guard_slot_of(block);
    for (int j = 0; j < i; j++) {
      CHECK(order[j] != order[i]);
    }
    hak_free(block);
  }
  for (int i = 0; i < 5 * SLOTS; i++) {
    void *block = hak_malloc(10);
    CHECK(hak_guard_slot_of(block) == order[i % SLOTS]);
    hak_free(block);
  }
}

static void when_all_are_live_blocks_are_ordinary(void) {
  void *blocks[SLOTS + 3];
  start();
  for (int i = 0; i < SLOTS + 3; i++) {
    blocks[i] = hak_malloc(500);
    CHECK(blocks[i] && is_guarded(blocks[i]) == (i < SLOTS));
  }
  CHECK(hak_records_out(hak_class_of(500)) == SLOTS);
  for (int i = 0; i < SLOTS + 3; i++) {
    hak_free(blocks[i]);
  }
  CHECK(hak_records_out(hak_class_of(500)) == 0);
  void *block = hak_malloc(500);
  CHECK(is_guarded(block));
  hak_free(block);
  hak_check();
}

/* Without guard pages, as before Linux 6.13 */

static void without_either_there_are_none(void) {
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  system_refuse(SYSTEM_MPROTECT, 0, SYSTEM_ALL);
  CHECK(!hak_sample_guard(ALL, SLOTS));
  system_allow();
  CHECK(hak_sample_rate() == 0 && !hak_sampling_is_on());
}

/* If a page cannot be made inaccessible, it is not watched. If its access cannot be restored, it is not used. */
static void a_refused_call_costs_a_slot_for_the_moment(void) {
  start();
  void *blocks[SLOTS + 1], *block;
  for (int i = 0; i <= SLOTS; i++) {
    blocks[i] = hak_malloc(100); /* the last one maps memory for blocks without guards */
  }
  for (int i = 1; i <= SLOTS; i++) {
    hak_free(blocks[i]);
  }
  system_refuse(SYSTEM_MADVISE, 0, SYSTEM_ALL);
  system_refuse(SYSTEM_MPROTECT, 0, SYSTEM_ALL);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL); /* access is restored by a new mapping, too */
  hak_free(blocks[0]);
  void *other = hak_malloc(100);
  CHECK(other && !is_guarded(other));
  system_allow();
  hak_free(other);
  for (int i = 0; i < 3 * SLOTS; i++) {
    block = hak_malloc(100);
    CHECK(is_guarded(block));
    hak_free(block);
  }
}

/* How often */

/* The share of guarded blocks is as requested, and the profile's samples are the same as without guards. */
static void the_share_is_as_asked(void) {
  enum { BLOCKS = 400000, BYTES = 112, MEAN = 4096, PROFILE_MEAN = 2048 };
  hak_sample_seed(3);
  CHECK(hak_sample_guard(MEAN, SLOTS) && hak_sample_start(PROFILE_MEAN));
  double guarded = 0;
  for (int i = 0; i < BLOCKS; i++) {
    void *block = hak_malloc(BYTES);
    guarded += is_guarded(block);
    hak_free(block);
  }
  double guard = -expm1(-(double)BYTES / MEAN), profile = -expm1(-(double)BYTES / PROFILE_MEAN);
  double taken = (double)hak_samples.taken;
  CHECK(fabs(guarded - guard * BLOCKS) < 4 * sqrt(guard * BLOCKS));
  CHECK(fabs(taken - profile * BLOCKS) < 4 * sqrt(profile * BLOCKS));
  CHECK(hak_records_live() == 0);
}

static uint64_t trial;
enum { TIMES = 20, BUG_BYTES = 256, BUG_MEAN = 8192, TRIALS = 400 };

static void buggy(void) {
  hak_sample_seed(trial);
  CHECK(hak_sample_guard(BUG_MEAN, SLOTS));
  for (int i = 0; i < TIMES; i++) {
    char *volatile block = hak_malloc(BUG_BYTES);
    hak_free(block);
    (void)*(volatile char *)block;
  }
}

/* 1 - (1 - p)^k, where p is the chance that a block is guarded. */
static void a_bug_is_caught_as_often_as_said(void) {
  static ChildResult result;
  int caught = 0;
  for (trial = 1; trial <= TRIALS; trial++) {
    child_run(buggy, &result);
    bool told = strstr(result.errors, "hakmem: use after free") != NULL;
    CHECK(told == WIFSIGNALED(result.status));
    caught += told;
  }
  double p = -expm1(-(double)BUG_BYTES / BUG_MEAN), share = 1 - pow(1 - p, TIMES);
  double deviation = sqrt(TRIALS * share * (1 - share));
  printf("caught %d of %d, expected %.1f\n", caught, TRIALS, TRIALS * share);
  fflush(stdout); /* otherwise each child would write the text again */
  CHECK(fabs(caught - TRIALS * share) < 4 * deviation);
}

/* When another process changes the rate of the profile, the guards stay unchanged. */
static void the_request_word_keeps_the_guards(void) {
  start();
  hak_free(hak_malloc(10));
  hak_sample_request = ((hak_sample_request >> HAK_SAMPLE_MEAN_BITS) + 1) << HAK_SAMPLE_MEAN_BITS | 1000;
  hak_free(hak_malloc(100000));
  CHECK(hak_sample_rate() == 1000 && (hak_sample_request & HAK_SAMPLE_GUARDS));
  hak_sample_stop();
  void *block = hak_malloc(10);
  CHECK(hak_sample_rate() == 0 && is_guarded(block));
  hak_free(block);
}

static void *use_some(void *unused) {
  (void)unused;
  for (size_t i = 0; i < 3000; i++) {
    char *block = hak_malloc(i % 1000);
    CHECK(block != NULL);
    memset(block, (int)i, i % 1000);
    hak_free(block);
  }
  return NULL;
}

static void threads_share_the_slots(void) {
  pthread_t threads[4];
  start();
  for (int i = 0; i < 4; i++) {
    CHECK(pthread_create(&threads[i], NULL, use_some, NULL) == 0);
  }
  pid_t child = fork();
  if (child == 0) {
    use_some(NULL);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  for (int i = 0; i < 4; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(hak_records_live() == 0);
  hak_check();
}

int main(void) {
  child_succeeds(blocks_lie_at_an_end_of_their_page);
  child_succeeds(other_blocks_are_as_before);
  child_succeeds(realloc_moves_them);
  child_succeeds(a_freed_slot_waits_for_all_others);
  child_succeeds(when_all_are_live_blocks_are_ordinary);
  child_succeeds(without_either_there_are_none);
  child_succeeds(a_refused_call_costs_a_slot_for_the_moment);
  child_succeeds(the_share_is_as_asked);
  a_bug_is_caught_as_often_as_said();
  child_succeeds(the_request_word_keeps_the_guards);
  child_succeeds(threads_share_the_slots);
  return 0;
}
