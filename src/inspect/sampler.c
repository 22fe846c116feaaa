/* The sampler as the heap sees it (hook.h): look-up, free and resize of sampled blocks, and the table. */
#include "guard.h"
#include "images.h"
#include "layout.h"
#include "modules.h"
#include "probes.h"
#include "profile.h"
#include "records.h"
#include "regions/regions.h"
#include "sample.h"
#include "sites.h"
#include "stats.h"

/* The piece's owners read without the lock whether its list of samples is empty. */
void hak_sampler_enter_piece_locked(hak_sample_t *record) {
  hak_sample_t *first = atomic_load_explicit(&record->piece->samples, memory_order_relaxed);
  HAK_LIST_PUSH(first, record, after, before);
  atomic_store_explicit(&record->piece->samples, first, memory_order_relaxed);
}

void hak_sampler_leave_piece_locked(hak_sample_t *record) {
  hak_sample_t *first = atomic_load_explicit(&record->piece->samples, memory_order_relaxed);
  HAK_LIST_REMOVE(first, record, after, before);
  atomic_store_explicit(&record->piece->samples, first, memory_order_relaxed);
}

static void forget_locked(hak_sample_t *was) {
  if (was->weight_bytes > 0) {
    hak_site_remove_locked(was->site, was->weight_bytes, was->bytes);
  }
  hak_record_drop_locked(was);
}

/* Report a block that is not live, or no block at all. */
_Noreturn static void refuse(const void *block, const char *function) {
  const hak_guard_slot_t *slot = hak_guard_slot_of(block);
  if (!slot) {
    hak_misuse(function, hak_record_why(block), block);
  }
  hak_guard_explain(slot);
  bool freed = slot->block == block && slot->state == HAK_GUARD_FREED;
  hak_misuse(function, freed ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_NOT_START, block);
}

static void tell_freed(const hak_sample_t *was) {
  if (was->weight_bytes > 0 && hak_probe_free_semaphore) {
    hak_probe_free(was->block);
  }
}

static void put_back(hak_sample_t *record, bool changed) {
  if (changed) {
    tell_freed(record);
  } else {
    record->cls = hak_pagemap_class(record->block); /* a run may have become a huge block of the same size */
    hak_pagemap_set_class(record->block, 1, HAK_CLASS_SAMPLED);
  }
  hak_lock(&hak_samples_lock);
  if (changed) {
    forget_locked(record);
  } else {
    hak_record_put_locked(record);
  }
  hak_unlock(&hak_samples_lock);
}

static hak_sample_t *lift(const void *block) {
  hak_lock(&hak_samples_lock);
  hak_sample_t *record = hak_record_take_locked(block, NULL);
  if (record && record->cls < HAK_RUN_FIRST) {
    hak_record_put_locked(record);
    record = NULL;
  }
  hak_unlock(&hak_samples_lock);
  if (record) {
    hak_pagemap_set_class(block, 1, record->cls);
  }
  return record;
}

static uint32_t free_sample(void *block) {
  hak_sample_t was;
  if (HAK_UNLIKELY(hak_probe_free_semaphore != 0) && hak_record_find(block, &was)) {
    tell_freed(&was);
  }
  hak_lock(&hak_samples_lock);
  hak_sample_t *record = hak_record_take_locked(block, NULL);
  if (!record) {
    hak_unlock(&hak_samples_lock);
    refuse(block, "free");
  }
  was = *record;
  forget_locked(record);
  bool slot = was.cls < HAK_RUN_FIRST && !was.guard;
  bool slices = slot && hak_record_give_slot_locked(block, was.home);
  hak_unlock(&hak_samples_lock);
  if (was.guard) {
    hak_guard_give(was.guard);
  } else if (slices) {
    hak_record_give_slices(block, was.cls, was.home);
  } else if (!slot) {
    hak_pagemap_set_class(block, 1, was.cls);
    return was.cls;
  }
  return HAK_CLASS_NONE;
}

static void out_of_region(hak_piece_t *piece, const void *block) {
  hak_sample_t *record;
  hak_lock(&hak_samples_lock);
  do {
    const hak_sample_t *first = atomic_load_explicit(&piece->samples, memory_order_relaxed);
    record = first ? hak_record_take_locked(block ? block : first->block, piece) : NULL;
    if (record) {
      tell_freed(record);
      forget_locked(record);
    }
  } while (record && !block);
  hak_unlock(&hak_samples_lock);
}

static size_t usable(const void *block, const char *function) {
  hak_sample_t copy;
  if (!hak_record_find(block, &copy)) {
    refuse(block, function);
  }
  return copy.guard ? hak_guard_usable(copy.asked) : copy.bytes;
}

void hak_sampler_each(void (*visit)(const hak_sample_t *sample, void *argument), void *argument) {
  hak_sample_t copy[HAK_RECORDS];
  for (hak_records_t *piece = atomic_load_explicit(&hak_records, memory_order_acquire); piece; piece = piece->next) {
    hak_lock(&hak_samples_lock);
    size_t count = 0;
    for (size_t i = 0; i < HAK_RECORDS; i++) {
      if (piece->sample[i].live && piece->sample[i].weight_bytes > 0) {
        copy[count++] = piece->sample[i];
      }
    }
    hak_unlock(&hak_samples_lock);
    for (size_t i = 0; i < count; i++) {
      visit(&copy[i], argument);
    }
  }
}

/* The linker takes files from libhakmem.a only for what is referenced. */
__attribute__((used)) static const hak_layout_t *const layout_anchor = &hak_layout;

static void start(bool (*holds_a_lock)(void)) {
  size_t mean = hak_option_size(HAK_OPTION_GUARD_RATE);
  if (mean && !hak_sample_guard(mean, hak_option_size(HAK_OPTION_GUARD_SLOTS))) {
    hak_text_say("hakmem: warning: no blocks are guarded: the system has no memory for them\n");
  }
  hak_profile_start_up(holds_a_lock);
}

static void at_exit(bool inside) {
  hak_profile_at_exit(inside);
  hak_stats_at_exit(inside);
}

static void each_lock(void (*visit)(hak_lock_t *lock, bool flag), bool flag) {
  visit(&hak_profile_lock, flag);
  visit(&hak_modules_lock, flag);
  visit(&hak_sites_lock, flag);
  visit(&hak_samples_lock, flag);
}

static void fork_child(hak_heap_t *unused) {
  (void)unused;
  if (atomic_load_explicit(&hak_sample_request, memory_order_relaxed) != 0) { /* else there was never a sample */
    hak_sites_fork_child_locked();
  }
}

const hak_hook_sampler_t hak_hook_sampler = {.part = {.start = start,
                                                      .exit = at_exit,
                                                      .each_lock = each_lock,
                                                      .fork_child = fork_child,
                                                      .alloc = hak_batches_alloc,
                                                      .usable = usable},
                                             .allocated = hak_batches_allocated,
                                             .refused = hak_profile_refused,
                                             .free = free_sample,
                                             .lift = lift,
                                             .put_back = put_back,
                                             .in_region = hak_batches_in_region,
                                             .out_of_region = out_of_region,
                                             .check = hak_record_check};
