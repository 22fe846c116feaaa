/* Batches: blocks that were counted in advance, from which malloc takes while the sampler is on. Each batch
 * is a magazine that the thread fills from its bin. */
#include "sample.h"

#include "profile.h"
#include "records.h"

enum {
  GRANT_BLOCKS = 64,      /* worth a slow-path call; a class with fewer blocks asks for quota */
  GRANT_BYTES = 20 << 10, /* largest batch in bytes */
  GRANT_FIRST_BLOCKS = 8, /* size of the first batches */
};

/* An attached tracer starts sampling if it was off, until the tracer detaches. */
HAK_COLD static void follow_tracer(void) {
  static _Atomic bool started;
  bool wanted = hak_probe_alloc_semaphore != 0;
  if (atomic_exchange_explicit(&hak_probes_seen, wanted, memory_order_relaxed) == wanted) {
    return; /* another thread did it already */
  }
  if (wanted && hak_sample_rate() == 0) {
    atomic_store_explicit(&started, hak_sample_start(HAK_SAMPLE_MEAN_USUAL), memory_order_relaxed);
  } else if (!wanted && atomic_exchange_explicit(&started, false, memory_order_relaxed)) {
    hak_sample_stop();
  }
}

/* Swap the whole magazine of the bin with the empty one of the batch. A fork between any two of these steps loses the
 * blocks in the child, but no block is in two places. */
static void swap_magazines(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_t *bin = &heap->bin[cls];
  hak_batch_t *batch = &heap->batch[cls - 1];
  hak_bin_info_t *info = &heap->info[cls];
  hak_magazine_t full = info->magazine, empty = info->batch_magazine;
  hak_free_block_t **slots = hak_magazine_slots(&full), *head = bin->head;
  atomic_store_explicit(&info->batch_magazine.size, 0, memory_order_relaxed);
  hak_fork_fence();
  bin->head = HAK_NO_BLOCK;
  hak_fork_fence();
  atomic_store_explicit(&bin->top, hak_magazine_slots(&empty) - 1, memory_order_relaxed);
  hak_fork_fence();
  hak_magazine_set(&info->magazine, &empty);
  hak_bin_set_end(heap, cls);
  hak_magazine_set(&info->batch_magazine, &full);
  batch->head = head;
  hak_fork_fence();
  atomic_store_explicit(&batch->top, slots + blocks - 1, memory_order_relaxed);
}

/* Count the newest blocks of the bin into the batch; the batch is empty before. False: no memory for its magazine. */
static bool grant_some(hak_heap_t *heap, uint32_t cls, uint32_t blocks) {
  hak_bin_t *bin = &heap->bin[cls];
  hak_batch_t *batch = &heap->batch[cls - 1];
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t count = hak_bin_blocks(heap, cls), rest = count - blocks;
  if (rest == 0) {
    swap_magazines(heap, cls, blocks);
    return true;
  }
  if (info->batch_magazine.size < blocks) {
    hak_magazine_drop(&info->batch_magazine);
    if (!hak_magazine_make(&info->batch_magazine, blocks)) {
      return false;
    }
  }
  hak_free_block_t **from = hak_magazine_slots(&info->magazine), **slots = hak_magazine_slots(&info->batch_magazine);
  hak_copy_words(slots + 1, from + 1 + rest, blocks - 1);
  hak_free_block_t *head = bin->head;
  hak_bin_lower(heap, cls, rest);
  batch->head = head;
  hak_fork_fence();
  atomic_store_explicit(&batch->top, slots + blocks - 1, memory_order_relaxed);
  return true;
}

/* The batch is empty: count the blocks in the bin before the next sample. False: there are none, or the sample is
 * next. */
static bool count_before_sample(hak_heap_t *heap, uint32_t cls) {
  hak_bin_info_t *info = &heap->info[cls];
  uint32_t has = hak_bin_blocks(heap, cls), blocks = has < info->sample_left ? has : info->sample_left;
  if (blocks == 0 || heap->bin[cls].head == HAK_NO_BLOCK || !grant_some(heap, cls, blocks)) {
    return false;
  }
  info->sample_left -= blocks;
  info->busy = true;
  return true;
}

static void *pop_of_batch(hak_heap_t *heap, uint32_t cls) {
  hak_batch_t *batch = &heap->batch[cls - 1];
  void *block = hak_bin_pop(heap, (hak_bin_t *)(void *)batch);
  if (HAK_UNLIKELY(!block)) {
    hak_freed_damaged("malloc", batch->head);
    atomic_store_explicit(&batch->top, hak_magazine_slots(&heap->info[cls].batch_magazine) - 1, memory_order_relaxed);
    batch->head = HAK_NO_BLOCK;
  }
  return block;
}

/* The batch is empty: count the whole bin, and take the first block. NULL: the slower path must do it. */
static void *grant_all(size_t bytes) {
  hak_heap_t *heap = hak_heap;
  uint32_t at = hak_small_code(bytes) / HAK_BATCH_WORDS, cls = at + 1; /* from the cache line that malloc has loaded */
  if (HAK_UNLIKELY(heap->sample_setting != atomic_load_explicit(&hak_sample_request, memory_order_relaxed) ||
                   at >= HAK_BATCH_LAST)) {
    return NULL;
  }
  bool enough = hak_bin_blocks(heap, cls) >= heap->info[cls].batch_least;
  if (!enough || heap->batch[at].head != HAK_NO_BLOCK || !count_before_sample(heap, cls)) {
    return NULL;
  }
  return pop_of_batch(heap, cls);
}

HAK_INLINE void *sample_if_due(hak_heap_t *heap, void *block, uint32_t cls, size_t asked, size_t bytes,
                               uint64_t setting) {
  if (heap && cls != HAK_CLASS_HUGE && heap->info[cls].sample_left > 0) {
    heap->info[cls].sample_left--;
    return NULL;
  }
  void *sample = hak_sample_if_due(heap, block, cls, asked, bytes, setting);
  if (sample) {
    hak_profile_write_due();
  }
  return sample;
}

void *hak_batches_alloc(size_t bytes, size_t align, bool *zeroed) {
  (void)align, (void)zeroed;
  if (HAK_UNLIKELY(hak_sampling_probes_changed())) {
    follow_tracer();
  }
  void *block = grant_all(bytes);
  if (HAK_LIKELY(block != NULL)) {
    return block;
  }
  uint64_t setting;
  uint32_t cls = hak_class_of(bytes);
  hak_heap_t *heap = hak_sample_catch_up(&setting);
  if (heap && cls <= HAK_BATCH_LAST && hak_sampling_takes(setting)) {
    /* Whether the next sample is among the bin's blocks; else grant_rest counts a batch after the refill. */
    bool among_them = hak_bin_blocks(heap, cls) > heap->info[cls].sample_left;
    if (heap->batch[cls - 1].head != HAK_NO_BLOCK || (among_them && count_before_sample(heap, cls))) {
      return pop_of_batch(heap, cls); /* the head is valid even while the table changes */
    }
  }
  return sample_if_due(heap, NULL, cls, bytes, hak_class_sizes[cls], setting);
}

/* A class with fewer blocks than a full batch gets more sampler quota, step by step, if the policy grants it. */
static void ask_for_more(hak_heap_t *heap, uint32_t cls, uint32_t has) {
  uint32_t most = GRANT_BYTES / hak_class_sizes[cls], more = has + GRANT_FIRST_BLOCKS;
  hak_bin_info_t *info = &heap->info[cls];
  most = most < GRANT_BLOCKS ? most : GRANT_BLOCKS;
  info->batch_least = most;
  if (has >= most) {
    return;
  }
  more = more < most - has ? more : most - has;
  if (!hak_policy_add_quota(heap, cls, more)) {
    info->batch_least = 1;
  } else if (heap->bin[cls].head == HAK_NO_BLOCK) {
    hak_cache_stock(heap, cls, more);
  }
}

/* The bin was refilled for one block: count the others. */
static void grant_rest(hak_heap_t *heap, uint32_t cls) {
  if (cls > HAK_BATCH_LAST || !hak_sampling_takes(heap->sample_setting) || heap->batch[cls - 1].head != HAK_NO_BLOCK) {
    return;
  }
  uint32_t has = hak_bin_blocks(heap, cls);
  count_before_sample(heap, cls);
  if (!heap->info[cls].buffers_remote) {
    ask_for_more(heap, cls, has + 1);
  }
}

void hak_batches_allocated(void *block, size_t bytes) {
  uint64_t setting;
  uint32_t cls = hak_pagemap_class(block);
  if (HAK_UNLIKELY(hak_sampling_probes_changed())) {
    follow_tracer();
  }
  if (hak_hard.on) { /* its bins stay empty, and its large blocks are no samples */
    return;
  }
  if (hak_class_is_run(cls) || cls == HAK_CLASS_HUGE) {
    hak_heap_t *heap = hak_sample_catch_up(&setting);
    sample_if_due(heap, block, cls, bytes, hak_block_usable(block, cls), setting);
  } else {
    grant_rest(hak_heap, hak_class_of(bytes));
  }
}

void hak_batches_in_region(void *block, size_t bytes) {
  if (HAK_UNLIKELY(hak_sampling_probes_changed())) {
    follow_tracer();
  }
  if (hak_sample_in_region(block, bytes)) {
    hak_profile_write_due();
  }
}
