/* The sampler: its effects on tables, lists and blocks, for all requests and failures. */
#include "inspect/sample.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "bins.h"
#include "blocks/blocks.h"
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "inspect/records.h"
#include "inspect/sampling_math.h"
#include "inspect/stats.h"
#include "malloc/fast.h"
#include "pages/arena.h"
#include "system.h"
#include "system/meta.h"

enum { ALL = 1, RARE = 1 << 28 };

static void chances_are_right(void) {
  for (int i = 1; i < 4000; i++) {
    double u = exp(-i / 100.0);
    CHECK(fabs(hak_sampling_gap(u) + log(u)) < 1e-9 * (1 - log(u)));
  }
  CHECK(hak_sampling_gap(1) == 0);
  for (size_t bytes = 16; bytes < (size_t)1 << 40; bytes += bytes / 3) {
    for (uint64_t mean = 2; mean < 1 << 30; mean *= 7) {
      double below = -expm1(-(double)bytes / (double)mean);
      CHECK(fabs(hak_sampling_probability(bytes, mean) / below - 1) < 1e-12);
      CHECK(fabs(hak_sampling_weight(bytes, mean) / ((double)bytes / below) - 1) < 1e-10);
    }
    CHECK(hak_sampling_probability(bytes, 1) == 1 && hak_sampling_weight(bytes, 1) == (double)bytes);
  }
  CHECK(hak_sampling_random_unit(0) > 0 && hak_sampling_random_unit(UINT64_MAX) < 1);
  CHECK(hak_sampling_random_unit(0) + hak_sampling_random_unit(UINT64_MAX) == 1);
}

static void table_leads_to_bins(void) {
  CHECK(hak_small_code(0) == HAK_BINS_AT);
  for (size_t bytes = 1; bytes <= HAK_SMALL_MAX; bytes++) {
    CHECK(hak_small_code(bytes) == HAK_BINS_AT + hak_class_of(bytes) * HAK_BIN_WORDS);
  }
}

static void on_and_off_change_the_table(void) {
  table_leads_to_bins();
  CHECK(hak_sample_rate() == 0 && !hak_sampling_is_on());
  CHECK(hak_sample_start(12345) && hak_sample_rate() == 12345 && hak_sampling_is_on());
  CHECK(hak_small_code(0) == HAK_BINS_AT); /* blocks of no bytes are never counted */
  for (size_t bytes = 1; bytes <= HAK_SMALL_MAX; bytes++) {
    uint32_t cls = hak_class_of(bytes);
    CHECK(hak_small_code(bytes) == (bytes <= 4096 ? (cls - 1) * HAK_BATCH_WORDS : HAK_BINS_AT));
  }
  CHECK(hak_sample_start(SIZE_MAX) && hak_sample_rate() == HAK_SAMPLE_MEAN_MAX);
  hak_sample_stop();
  table_leads_to_bins();
  CHECK(hak_sample_rate() == 0);
  hak_free(hak_malloc(1 << 20));
  CHECK(!hak_sampling_is_on()); /* this thread has noticed the change */
  hak_check();
}

/* Changes the setting as another process does, by a single store. */
static void the_request_word_is_obeyed(void) {
  hak_free(hak_malloc(100));
  hak_sample_request = (uint64_t)1 << HAK_SAMPLE_MEAN_BITS | ALL;
  hak_free(hak_malloc(HAK_SMALL_MAX + 1)); /* takes the slow path */
  CHECK(hak_small_code(1) == 0);
  void *block = hak_malloc(100);
  CHECK(hak_pagemap_class(block) == HAK_CLASS_SAMPLED);
  hak_sample_request = (uint64_t)2 << HAK_SAMPLE_MEAN_BITS;
  hak_free(hak_malloc(100));
  table_leads_to_bins();
  hak_free(block);
  CHECK(hak_records_live() == 0);
}

typedef struct Seen {
  size_t samples;
  double bytes, weight;
} Seen;

static void see(const hak_sample_t *sample, void *argument) {
  Seen *seen = argument;
  CHECK(sample->bytes >= sample->asked && sample->weight_bytes >= (double)sample->bytes);
  CHECK(hak_malloc_usable_size(sample->block) == sample->bytes && sample->thread == hak_lock_id);
  seen->samples++;
  seen->bytes += (double)sample->bytes;
  seen->weight += sample->weight_bytes;
}

static const size_t sizes[] = {1,     16,    17,    100,   1000,   4096,    4097,          10000,
                               16384, 32768, 32769, 65536, 300000, 1 << 20, (1 << 20) + 1, 5 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Slices that begin a sampled block, or hold several. */
static size_t sampled_slices(void) {
  size_t slices = 0;
  for (const hak_chunk_t *chunk = NULL; (chunk = hak_pagemap_next_sliced(chunk));) {
    for (size_t i = 0; i < HAK_CHUNK_SLICES; i++) {
      slices += hak_pagemap_slice_class(chunk->base + i * HAK_SLICE_BYTES) == HAK_CLASS_SAMPLED;
    }
  }
  return slices;
}

/* With a mean of 1, every block is a sample. It has its usual size, and keeps its contents. */
static void every_size_can_be_sampled(void) {
  unsigned char *blocks[SIZES];
  size_t usable[SIZES];
  for (size_t i = 0; i < SIZES; i++) {
    blocks[i] = hak_malloc(sizes[i]);
    usable[i] = hak_malloc_usable_size(blocks[i]);
    hak_free(blocks[i]);
  }
  CHECK(hak_sample_start(ALL));
  for (int round = 0; round < 3; round++) {
    double bytes = 0;
    for (size_t i = 0; i < SIZES; i++) {
      blocks[i] = hak_malloc(sizes[i]);
      CHECK(hak_pagemap_class(blocks[i]) == HAK_CLASS_SAMPLED && hak_malloc_usable_size(blocks[i]) == usable[i]);
      memset(blocks[i], (int)i, usable[i]);
      bytes += (double)usable[i];
    }
    Seen seen = {0, 0, 0};
    hak_sampler_each(see, &seen);
    CHECK(seen.samples == SIZES && seen.bytes == bytes && seen.weight == bytes);
    CHECK(hak_records_live() == SIZES && sampled_slices() > 0);
    hak_check();
    for (size_t i = 0; i < SIZES; i++) {
      CHECK(blocks[i][0] == i && memcmp(blocks[i], blocks[i] + 1, usable[i] - 1) == 0);
      hak_free(blocks[i]);
      CHECK(errno == 0);
    }
    seen.samples = 0;
    hak_sampler_each(see, &seen);
    CHECK(hak_records_live() == 0 && seen.samples == 0);
    hak_check();
  }
  CHECK(hak_samples.taken == 3 * SIZES && hak_samples.dropped == 0);
  hak_sample_stop();
  CHECK(sampled_slices() == 0);
  hak_thread_flush();
  (void)hak_trim(0);
  CHECK(hak_retain_used_slices() == 0);
}

/* Samples fill more than one slice of slots, more than one piece of records, and make the table grow. They are freed in
 * another order. */
static void many_are_sampled(void) {
  enum { MANY = 20000 };
  static void *blocks[MANY];
  CHECK(hak_sample_start(ALL));
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < MANY; i++) {
      blocks[i] = hak_malloc(1 + i % 3000);
      CHECK(hak_pagemap_class(blocks[i]) == HAK_CLASS_SAMPLED);
    }
    hak_check();
    CHECK(hak_records_live() == MANY);
    for (size_t i = 0; i < MANY; i++) {
      hak_free(blocks[i * 7919 % MANY]);
      if (i % 4000 == 0) {
        hak_check();
      }
    }
    CHECK(hak_records_live() == 0);
    CHECK(sampled_slices() <= 7); /* one slice of each slot size is kept */
  }
  hak_sample_stop();
  CHECK(sampled_slices() == 0);
}

static void statistics_count_them(void) {
  hak_stats_t before, stats;
  uint32_t cls = hak_class_of(100), run = hak_class_of(100000);
  hak_free(hak_malloc(100)); /* the bin has one block */
  hak_stats_read(&before);
  CHECK(hak_sample_start(ALL));
  void *blocks[] = {hak_malloc(100), hak_malloc(100), hak_malloc(100000), hak_malloc(3 << 20)};
  hak_stats_read(&stats);
  CHECK(stats.classes[cls].live_blocks == before.classes[cls].live_blocks + 2);
  CHECK(stats.classes[run].live_blocks == 1 && stats.huge_blocks == 1 && stats.huge_bytes == 3 << 20);
  hak_sample_stop();
  for (int i = 0; i < 4; i++) {
    hak_free(blocks[i]);
  }
  hak_stats_read(&stats);
  CHECK(stats.live_bytes == before.live_bytes && stats.huge_blocks == 0);
}

/* Grants */

static hak_batch_t *grant_of(size_t bytes) {
  return &hak_heap->batch[hak_class_of(bytes) - 1];
}

static void what_is_granted_is_cached(void) {
  hak_heap_totals_t totals[HAK_BIN_COUNT];
  uint32_t cls = hak_class_of(100);
  hak_sample_seed(1);
  CHECK(hak_sample_start(RARE));
  void *first = hak_malloc(100), *second = hak_malloc(100);
  uint32_t left = hak_bin_batch_left(hak_heap, hak_class_of(100)), to_go = hak_heap->info[cls].sample_left;
  CHECK(left > 0);
  hak_stats_heaps(totals);
  CHECK(totals[cls].cached_blocks >= left);
  hak_check();
  hak_free(second);
  CHECK(hak_malloc(100) != second); /* the freed block lies in the bin, and malloc takes from the batch */
  hak_thread_flush();
  CHECK(hak_bin_batch_left(hak_heap, hak_class_of(100)) == 0 && grant_of(100)->head == HAK_NO_BLOCK);
  CHECK(hak_heap->info[cls].sample_left == to_go + left - 1); /* blocks that were not handed out do not count */
  hak_stats_heaps(totals);
  CHECK(totals[cls].cached_blocks == 0);
  hak_free(first);
  hak_sample_stop();
  hak_check();
}

/* A batch ends where the sample is due. */
static void grants_end_at_the_sample(void) {
  uint32_t cls = hak_class_of(64);
  CHECK(hak_sample_start(RARE));
  hak_free(hak_malloc(64));
  hak_thread_flush();
  for (uint32_t left = 0; left < 100; left++) {
    uint64_t taken = hak_samples.taken;
    hak_heap->info[cls].sample_left = left;
    for (uint32_t i = 0; i < left; i++) {
      hak_free(hak_malloc(64));
      CHECK(hak_samples.taken == taken);
    }
    void *block = hak_malloc(64);
    CHECK(hak_pagemap_class(block) == HAK_CLASS_SAMPLED && hak_samples.taken == taken + 1);
    hak_free(block);
    hak_thread_flush();
  }
  hak_sample_stop();
}

static void lent_memory_comes_back(void) {
  uint32_t cls = hak_class_of(200);
  hak_free(hak_malloc(200));
  uint32_t capacity = bins_capacity(hak_heap, cls);
  CHECK(hak_sample_start(RARE));
  for (int i = 0; i < 1000; i++) {
    hak_free(hak_malloc(200));
  }
  CHECK(hak_heap->info[cls].sampler_quota > 0);
  CHECK(bins_capacity(hak_heap, cls) == capacity + hak_heap->info[cls].sampler_quota);
  bins_budgets_add_up(hak_heap);
  hak_sample_stop();
  hak_free(hak_malloc(1 << 20)); /* takes the slow path */
  CHECK(hak_heap->info[cls].sampler_quota == 0 && bins_capacity(hak_heap, cls) == capacity);
  CHECK(hak_bin_batch_left(hak_heap, hak_class_of(200)) == 0);
  bins_budgets_add_up(hak_heap);
  for (int i = 0; i < 1000; i++) {
    hak_free(hak_malloc(200));
  }
  hak_check();
}

static void *use_and_end(void *block) {
  *(void **)block = hak_malloc(100);
  hak_free(hak_malloc(100));
  CHECK(hak_bin_batch_left(hak_heap, hak_class_of(100)) > 0);
  return NULL;
}

static void a_thread_ends_with_a_grant(void) {
  hak_heap_totals_t totals[HAK_BIN_COUNT];
  pthread_t thread;
  void *block;
  CHECK(hak_sample_start(RARE));
  CHECK(pthread_create(&thread, NULL, use_and_end, &block) == 0 && pthread_join(thread, NULL) == 0);
  hak_stats_heaps(totals);
  CHECK(totals[hak_class_of(100)].cached_blocks == 0);
  hak_free(block);
  hak_sample_stop();
  hak_check();
}

/* realloc */

static void realloc_of_samples(void) {
  CHECK(hak_sample_start(ALL));
  char *block = hak_malloc(100);
  memset(block, 7, 100);
  uint64_t taken = hak_samples.taken;
  CHECK(hak_realloc(block, 112) == block && hak_realloc(block, 60) == block && hak_samples.taken == taken);
  char *moved = hak_realloc(block, 5000);
  CHECK(moved != block && moved[99] == 7 && hak_pagemap_class(moved) == HAK_CLASS_SAMPLED);
  CHECK(hak_samples.taken == taken + 1 && hak_records_live() == 1);
  size_t to[] = {60000, 65536, 100000, 90000, 900000, 2 << 20, 9 << 20, 3 << 20, 1200000, 50000, 10};
  for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
    moved = hak_realloc(moved, to[i]);
    CHECK(moved && hak_pagemap_class(moved) == HAK_CLASS_SAMPLED && hak_records_live() == 1);
    CHECK(memcmp(moved, "\7\7\7\7\7\7\7\7\7\7", 10) == 0 && hak_malloc_usable_size(moved) >= to[i]);
    hak_check();
  }
  CHECK(hak_realloc(moved, 0) == NULL && hak_records_live() == 0);
  hak_sample_stop();
}

static void a_failed_realloc_keeps_the_sample(void) {
  CHECK(hak_sample_start(ALL));
  void *blocks[] = {hak_malloc(100), hak_malloc(100000), hak_malloc(2 << 20)};
  uint64_t taken = hak_samples.taken;
  for (int i = 0; i < 3; i++) {
    size_t usable = hak_malloc_usable_size(blocks[i]);
    CHECK(hak_realloc(blocks[i], SIZE_MAX / 2 + 1) == NULL && errno == ENOMEM);
    system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
    CHECK(hak_realloc(blocks[i], 300 << 20) == NULL && errno == ENOMEM);
    system_allow();
    CHECK(hak_pagemap_class(blocks[i]) == HAK_CLASS_SAMPLED && hak_malloc_usable_size(blocks[i]) == usable);
    CHECK(hak_realloc(blocks[i], usable) == blocks[i]); /* nothing changes */
  }
  CHECK(hak_records_live() == 3 && hak_samples.taken == taken);
  for (int i = 0; i < 3; i++) {
    hak_free(blocks[i]);
  }
  hak_sample_stop();
  hak_check();
}

/* If a block that is no sample grows in place, this counts as a free and an allocation. */
static void growth_in_place_counts(void) {
  void *run = hak_malloc(50000), *huge = hak_malloc(2 << 20);
  CHECK(hak_sample_start(ALL));
  void *grown = hak_realloc(run, 70000), *larger = hak_realloc(huge, (2 << 20) + 50000);
  CHECK(grown && larger && hak_pagemap_class(grown) == HAK_CLASS_SAMPLED &&
        hak_pagemap_class(larger) == HAK_CLASS_SAMPLED);
  CHECK(hak_records_live() == 2);
  hak_free(grown);
  hak_free(larger);
  hak_sample_stop();
}

/* Without memory */

static void without_memory_a_sample_is_dropped(void) {
  static void *blocks[1 << 16];
  size_t count = 0;
  CHECK(hak_sample_start(ALL));
  blocks[count++] = hak_malloc(1000);
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  while (count < sizeof blocks / sizeof *blocks && (blocks[count] = hak_malloc(1000)) != NULL) {
    count++;
  }
  CHECK(errno == ENOMEM && hak_samples.dropped > 0);
  system_allow();
  hak_check();
  while (count > 0) {
    hak_free(blocks[--count]);
  }
  void *block = hak_malloc(1000);
  CHECK(hak_pagemap_class(block) == HAK_CLASS_SAMPLED);
  hak_free(block);
  hak_sample_stop();
  hak_check();
}

static void without_memory_it_does_not_start(void) {
  system_refuse(SYSTEM_MMAP, 0, SYSTEM_ALL);
  while (hak_meta_alloc(64)) { /* the library has some memory of its own */
  }
  CHECK(!hak_sample_start(ALL) && hak_sample_rate() == 0 && !hak_sampling_is_on());
  system_allow();
  CHECK(hak_sample_start(ALL));
}

int main(void) {
  chances_are_right();
  child_succeeds(on_and_off_change_the_table);
  child_succeeds(the_request_word_is_obeyed);
  child_succeeds(every_size_can_be_sampled);
  child_succeeds(many_are_sampled);
  child_succeeds(statistics_count_them);
  child_succeeds(what_is_granted_is_cached);
  child_succeeds(grants_end_at_the_sample);
  child_succeeds(lent_memory_comes_back);
  child_succeeds(a_thread_ends_with_a_grant);
  child_succeeds(realloc_of_samples);
  child_succeeds(a_failed_realloc_keeps_the_sample);
  child_succeeds(growth_in_place_counts);
  child_succeeds(without_memory_a_sample_is_dropped);
  child_succeeds(without_memory_it_does_not_start);
  return 0;
}
