/* The choice of samples: countdowns, rates, counted batches. slow.c calls it through hook.h. */
#include "sample.h"

#include "guard.h"
#include "images.h"
#include "probes.h"
#include "records.h"
#include "regions/regions.h"
#include "sampling_math.h"
#include "sites.h"
#include "unwind.h"

_Atomic uint64_t hak_sample_request HAK_START_DATA;
static struct {
  uint64_t setting;            /* in force; lock: the samples' */
  _Atomic uint64_t random;     /* state for threads without a heap */
  _Atomic uint64_t seed;       /* 0: none */
  _Atomic uint64_t guard_mean; /* 0: no block is guarded */
} sampler;
hak_sample_totals_t hak_samples;

/* The setting */

/* With `granting`, malloc looks for a block in the batch of its class, or in an always empty bin if the class has no
 * batch. Without, it looks in the bin of its class. */
static void lead_requests_locked(bool granting) {
  for (size_t i = 1; i < HAK_SMALL_STEPS; i++) {
    uint32_t cls = hak_small_classes[i];
    uint32_t bin = granting ? 0 : cls, code = HAK_BINS_AT + bin * HAK_BIN_WORDS;
    code = granting && cls <= HAK_BATCH_LAST ? (cls - 1) * HAK_BATCH_WORDS : code;
    atomic_store_explicit(&hak_class_codes[i], (uint8_t)code, memory_order_relaxed);
  }
}

static void put_into_force(void) {
  uint64_t setting;
  hak_freed_start();
  hak_lock(&hak_samples_lock);
  while ((setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed)) != sampler.setting) {
    bool guards = atomic_load_explicit(&sampler.guard_mean, memory_order_relaxed) != 0;
    if (guards != ((setting & HAK_SAMPLE_GUARDS) != 0)) { /* another process wrote the word */
      atomic_compare_exchange_strong(&hak_sample_request, &setting, setting ^ HAK_SAMPLE_GUARDS);
      continue;
    }
    bool granting = hak_sampling_takes(setting);
    if (granting != hak_sampling_takes(sampler.setting)) {
      lead_requests_locked(granting);
    }
    sampler.setting = setting;
  }
  hak_unlock(&hak_samples_lock);
}

static void request(size_t mean) {
  uint64_t old = atomic_load_explicit(&hak_sample_request, memory_order_relaxed), fresh;
  do {
    fresh = (((old >> HAK_SAMPLE_MEAN_BITS) + 1) << HAK_SAMPLE_MEAN_BITS) | (old & HAK_SAMPLE_GUARDS) | mean;
  } while (!atomic_compare_exchange_weak_explicit(&hak_sample_request, &old, fresh, memory_order_relaxed,
                                                  memory_order_relaxed));
  put_into_force();
}

bool hak_sample_start(size_t mean_bytes) {
  hak_sample_t *first = hak_record_new_and_lock(); /* this also makes the table */
  if (!first) {
    return false;
  }
  hak_record_drop_locked(first);
  hak_unlock(&hak_samples_lock);
  request(mean_bytes < HAK_SAMPLE_MEAN_MAX ? mean_bytes : HAK_SAMPLE_MEAN_MAX);
  return true;
}

bool hak_sample_guard(size_t mean_bytes, size_t slots) {
  hak_unwind_start((hak_unwinder_t)hak_option(HAK_OPTION_PROFILE_UNWIND));
  if (mean_bytes == 0 || !hak_guard_make_pool(slots) || !hak_fault_watch()) {
    return false;
  }
  atomic_store(&sampler.guard_mean, mean_bytes < HAK_SAMPLE_MEAN_MAX ? mean_bytes : HAK_SAMPLE_MEAN_MAX);
  request(hak_sample_rate());
  return true;
}

void hak_sample_stop(void) {
  request(0);
  hak_records_release();
}

size_t hak_sample_rate(void) {
  return hak_sample_mean_of(atomic_load_explicit(&hak_sample_request, memory_order_relaxed));
}

void hak_sample_seed(uint64_t seed) {
  atomic_store(&sampler.seed, seed);
  atomic_store(&sampler.random, seed);
}

/* Countdowns */

/* The probabilities that a block is sampled for the profile, that it is guarded, and that either is true. */
typedef struct chances {
  double profile, guard, any;
} chances_t;

static uint64_t guard_mean_of(uint64_t setting) {
  return setting & HAK_SAMPLE_GUARDS ? atomic_load_explicit(&sampler.guard_mean, memory_order_relaxed) : 0;
}

static chances_t chances_of(size_t bytes, uint64_t setting) {
  uint64_t mean = hak_sample_mean_of(setting), guard_mean = guard_mean_of(setting);
  chances_t chances = {mean ? hak_sampling_probability(bytes, mean) : 0,
                       guard_mean ? hak_sampling_probability(bytes, guard_mean) : 0, 0};
  chances.any = chances.profile + chances.guard - chances.profile * chances.guard;
  return chances;
}

static uint64_t random_bits(hak_heap_t *heap) {
  return heap ? hak_sampling_random_next(&heap->sample_random)
              : hak_sampling_random_mix(atomic_fetch_add(&sampler.random, HAK_RANDOM_STEP));
}

/* Uniform in (0, 1). */
static double random_unit(hak_heap_t *heap) {
  return hak_sampling_random_unit(random_bits(heap));
}

/* Number of blocks of the class before the next sample. */
static uint32_t draw(hak_heap_t *heap, uint32_t cls) {
  double mean = (double)hak_sample_mean_of(heap->sample_setting);
  double guard_mean = (double)guard_mean_of(heap->sample_setting);
  if (mean == 1) {
    return 0;
  }
  if (guard_mean > 0) {
    mean = mean > 0 ? mean * guard_mean / (mean + guard_mean) : guard_mean;
  }
  double blocks = hak_sampling_gap(random_unit(heap)) * mean / hak_class_sizes[cls];
  return (uint32_t)blocks; /* a gap is below 38, so this is below 2^32 */
}

/* Put a changed setting into force for this thread. */
HAK_COLD static void catch_up(hak_heap_t *heap) {
  for (uint32_t c = 1; c <= HAK_BATCH_LAST; c++) {
    hak_cache_return_batch(heap, c, "malloc");
  }
  put_into_force();
  heap->sample_setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed);
  uint64_t seed = atomic_load(&sampler.seed);
  heap->sample_random = seed ? hak_sampling_random_mix(atomic_fetch_add(&sampler.seed, 1)) : hak_os_random();
  bool on = hak_sampling_takes(heap->sample_setting);
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    hak_bin_touch(heap, c);
    heap->info[c].sample_left = on ? draw(heap, c) : 0;
    if (!on && c <= HAK_BATCH_LAST) {
      hak_policy_drop_quota(heap, c);
    }
  }
}

hak_heap_t *hak_sample_catch_up(uint64_t *setting) {
  hak_heap_t *heap = hak_heap;
  *setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed);
  if (HAK_LIKELY(heap->sample_setting == *setting && *setting != 0)) { /* false for the heap of threads without one */
    return heap;
  }
  heap = hak_heap_mine();
  if (heap && HAK_UNLIKELY(heap->sample_setting != *setting)) {
    catch_up(heap);
    *setting = heap->sample_setting;
  }
  return heap;
}

/* Whether the next block of the class is a sample, once the countdown has ended. */
static bool is_due(hak_heap_t *heap, uint32_t cls, size_t bytes, uint64_t setting) {
  if (!heap || cls == HAK_CLASS_HUGE) {
    return random_unit(heap) < chances_of(bytes, setting).any;
  }
  heap->info[cls].sample_left = draw(heap, cls);
  return true;
}

/* Samples */

/* The site of the caller's stack. A stack that already has a site was checked when the site was made. */
static hak_site_t *site_here(hak_site_label_t *label) {
  uintptr_t pcs[HAK_UNWIND_MAX];
  hak_site_t *site = hak_site_known(pcs, hak_unwind_unchecked(pcs), label);
  if (HAK_LIKELY(site != NULL)) {
    return site;
  }
  size_t count = hak_unwind(pcs);
  hak_images_learn(); /* the stack's library may be unloaded when a profile is written */
  return hak_site_of(pcs, count, label);
}

/* Count the sample, and put its record into the table, whose lock is held. */
static void enter(hak_sample_t *record, const hak_sample_t *made) {
  *record = *made;
  hak_record_put_locked(record);
  if (made->site) {
    atomic_fetch_add_explicit(&hak_samples.taken, 1, memory_order_relaxed);
    hak_site_add_locked(made->site, made->weight_bytes, made->bytes);
  }
  hak_unlock(&hak_samples_lock);
  if (made->site && hak_probe_alloc_semaphore) {
    hak_probe_alloc(made->block, made->asked, (size_t)(made->weight_bytes + 0.5));
  }
}

/* Record a sample that stands for blocks of `mean` bytes between two; 0: it is only guarded. False: no memory. */
HAK_INLINE bool keep(hak_sample_t *made, uint64_t mean, hak_site_label_t *label) {
  made->thread = hak_lock_my_id();
  if (mean > 0) {
    made->weight_bytes = hak_sampling_weight(made->bytes, mean);
    made->site = site_here(label);
  }
  hak_sample_t *record = made->block ? hak_record_new_and_lock() : hak_record_take_slot_and_lock(made);
  if (record) {
    enter(record, made);
  } else {
    atomic_fetch_add_explicit(&hak_samples.dropped, mean > 0, memory_order_relaxed);
  }
  return record != NULL;
}

/* Take a sample for the profile, as a guarded block, or both. `block` NULL: get a block for it. Returns NULL if there
 * is none. */
HAK_INLINE void *sample(hak_heap_t *heap, void *block, uint32_t cls, size_t asked, size_t bytes, uint64_t setting) {
  hak_sample_t made = {.block = block, .asked = asked, .bytes = bytes, .cls = cls};
  bool profile = true;
  if (HAK_UNLIKELY(setting & HAK_SAMPLE_GUARDS)) {
    chances_t chances = chances_of(bytes, setting);
    profile = chances.guard == 0 || random_unit(heap) * chances.any < chances.profile;
    bool guard = chances.guard != 0 && !block && (!profile || random_unit(heap) < chances.guard);
    made.guard = guard ? hak_guard_take(asked, random_bits(heap), &made.block) : 0;
    if (!made.guard && !profile) {
      return NULL;
    }
  }
  if (!keep(&made, profile ? hak_sample_mean_of(setting) : 0, NULL)) {
    if (made.guard) {
      hak_guard_give(made.guard);
    }
    return NULL;
  }
  if (block) {
    hak_pagemap_set_class(block, 1, HAK_CLASS_SAMPLED);
  }
  return made.block;
}

void *hak_sample_if_due(hak_heap_t *heap, void *block, uint32_t cls, size_t asked, size_t bytes, uint64_t setting) {
  bool due = hak_sampling_takes(setting) && is_due(heap, cls, bytes, setting);
  return due ? sample(heap, block, cls, asked, bytes, setting) : NULL;
}

/* Inside a scope a thread has no heap, so the countdown is its own. */
static bool is_due_in_region(size_t bytes, uint64_t setting, uint64_t mean) {
  static _Thread_local struct {
    uint64_t setting;
    double left; /* bytes before the next sample */
  } countdown __attribute__((tls_model("initial-exec")));
  bool fresh = countdown.setting != setting;
  countdown.left = fresh ? hak_sampling_gap(random_unit(NULL)) * (double)mean : countdown.left;
  countdown.setting = setting;
  countdown.left -= (double)bytes;
  bool due = countdown.left <= 0 || mean == 1;
  if (due) {
    countdown.left = hak_sampling_gap(random_unit(NULL)) * (double)mean;
  }
  return due;
}

bool hak_sample_in_region(void *block, size_t asked) {
  uint64_t setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed),
           mean = hak_sample_mean_of(setting);
  hak_piece_t *piece = mean ? hak_piece_at(block) : NULL;
  size_t bytes = piece ? hak_region_usable(piece, block, "malloc") : 0;
  if (!piece || !is_due_in_region(bytes, setting, mean)) {
    return false;
  }
  const hak_region_t *region = atomic_load_explicit(&piece->region, memory_order_relaxed);
  hak_sample_t made = {.block = block, .asked = asked, .bytes = bytes, .cls = HAK_CLASS_NONE, .piece = piece};
  return keep(&made, mean, hak_site_label(region->name));
}
