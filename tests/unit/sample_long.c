/* The sampler with full bins: a batch ends at the next sample, however deep in the bin that is, and may take a whole
 * bin at once. */
#include "bins.h"
#include "check.h"
#include "child.h"
#include "hakmem.h"
#include "inspect/sample.h"
#include "pages/pagemap.h"

enum { RARE = 1 << 28, BLOCKS = 500, BYTES = 16 };

static uint32_t cls;
static void *blocks[BLOCKS];

/* Fills the bin with many blocks, none of them in a batch. */
static uint32_t fill_a_bin(void) {
  cls = hak_class_of(BYTES);
  hak_sample_seed(3);
  CHECK(hak_sample_start(RARE));
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(BYTES);
  }
  for (int i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  while (hak_bin_batch_left(hak_heap, cls) > 0) {
    CHECK(hak_malloc(BYTES));
  }
  CHECK(bins_length(hak_heap, cls) > BLOCKS / 4);
  return bins_length(hak_heap, cls);
}

/* A batch consists of exactly the newest blocks of the bin, in the same order. */
static void batches(uint32_t left) {
  static hak_free_block_t *before[2 * BLOCKS];
  uint64_t taken = hak_samples.taken;
  uint32_t listed = bins_blocks(hak_heap, cls, before, 2 * BLOCKS);
  uint32_t batch_magazine = left < listed ? left : listed;
  hak_heap->info[cls].sample_left = left;
  for (uint32_t i = 0; i < batch_magazine; i++) {
    CHECK(hak_malloc(BYTES) == before[i]);
    CHECK(hak_heap->info[cls].sample_left == left - batch_magazine &&
          hak_bin_batch_left(hak_heap, cls) == batch_magazine - 1 - i);
    CHECK(hak_bin_blocks(hak_heap, cls) == listed - batch_magazine);
    for (uint32_t k = 0; k < listed && i % 64 == 0; k++) {
      CHECK(hak_verify_cache_holds(hak_heap, cls, before[k]) == (k > i));
    }
    hak_check();
  }
  CHECK(hak_samples.taken == taken);
  if (batch_magazine == left) {
    void *sample = hak_malloc(BYTES);
    CHECK(hak_pagemap_class(sample) == HAK_CLASS_SAMPLED);
    hak_free(sample);
  }
  for (uint32_t i = 0; i < batch_magazine; i++) {
    hak_free(before[i]);
  }
}

static void a_grant_ends_far_down(void) {
  uint32_t listed = fill_a_bin();
  batches(listed - 1);
  hak_sample_stop();
  hak_check();
}

static void a_grant_may_be_the_whole_bin(void) {
  batches(fill_a_bin());
  hak_sample_stop();
  hak_check();
}

/* The bin has fewer blocks than the gap to the next sample, so the bin and the batch exchange their arrays. */
static void a_bin_ends_before_the_sample(void) {
  uint32_t listed = fill_a_bin();
  hak_free_block_t **slots = hak_magazine_slots(&hak_heap->info[cls].magazine);
  batches(listed + 100);
  CHECK(hak_magazine_slots(&hak_heap->info[cls].batch_magazine) == slots);
  CHECK(hak_magazine_slots(&hak_heap->info[cls].magazine) != slots);
  hak_sample_stop();
  hak_check();
  hak_thread_flush();
  CHECK(hak_malloc(BYTES) != NULL);
}

int main(void) {
  child_succeeds(a_grant_ends_far_down);
  child_succeeds(a_grant_may_be_the_whole_bin);
  child_succeeds(a_bin_ends_before_the_sample);
  return 0;
}
