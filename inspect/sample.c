#include "sample.h"

#include "chance.h"
#include "fast.h"
#include "large.h"
#include "os.h"
#include "pagemap.h"
#include "slab.h"
#include "slots.h"

enum {
  GRANT_BLOCKS = 32,        /* worth a call: with fewer in its cycle a class asks for more, */
  GRANT_BYTES = 16 << 10,   /* up to so many bytes of them, */
  GRANT_FIRST_BLOCKS = 4,   /* a few first */
};

_Atomic uint64_t hak_sample_request;
static struct {
  uint64_t setting; /* in force; lock: the samples' */
  bool granting;    /* the table of requests leads to grants; the same lock */
  _Atomic uint64_t taken, dropped, weight_bytes;
  _Atomic uint64_t random; /* of threads without a heap */
  _Atomic uint64_t seed;   /* 0: none */
} sampler;

/* The setting */

/* Requests lead to grants, or, above these, to a bin that is always empty; or each to the bin of its class. */
static void lead_requests_locked(bool granting) {
  for (size_t i = 0; i < HAK_SMALL_STEPS; i++) {
    uint32_t cls = hak_small_classes[i];
    uint32_t code = cls <= HAK_GRANT_LAST ? HAK_GRANTS_AT + (cls - 1) * HAK_GRANT_WORDS : 0;
    atomic_store_explicit(&hak_class_codes[i], (uint8_t)(granting ? code : cls * HAK_BIN_WORDS), memory_order_relaxed);
  }
  sampler.granting = granting;
}

static void put_into_force(void) {
  uint64_t setting;
  hak_slab_init();
  hak_lock(&hak_samples_lock);
  while ((setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed)) != sampler.setting) {
    bool granting = hak_sample_mean_of(setting) != 0;
    if (granting != sampler.granting) {
      lead_requests_locked(granting);
    }
    sampler.setting = setting;
  }
  hak_unlock(&hak_samples_lock);
}

static void request(size_t mean) {
  uint64_t old = atomic_load_explicit(&hak_sample_request, memory_order_relaxed), fresh;
  do {
    fresh = (((old >> HAK_SAMPLE_MEAN_BITS) + 1) << HAK_SAMPLE_MEAN_BITS) | mean;
  } while (!atomic_compare_exchange_weak_explicit(&hak_sample_request, &old, fresh, memory_order_relaxed,
                                                  memory_order_relaxed));
  put_into_force();
}

bool hak_sample_start(size_t mean_bytes) {
  hak_sample_t *first = hak_record_new(); /* and the table with it */
  if (!first) {
    return false;
  }
  hak_record_drop(first);
  request(mean_bytes < HAK_SAMPLE_MEAN_MAX ? mean_bytes : HAK_SAMPLE_MEAN_MAX);
  return true;
}

void hak_sample_stop(void) {
  request(0);
  hak_slots_release();
}

size_t hak_sample_rate(void) {
  return hak_sample_mean_of(atomic_load_explicit(&hak_sample_request, memory_order_relaxed));
}

void hak_sample_seed(uint64_t seed) {
  atomic_store(&sampler.seed, seed);
  atomic_store(&sampler.random, seed);
}

/* Countdowns */

/* Blocks of the class before the next one that is sampled. */
static uint32_t draw(hak_heap_t *heap, uint32_t cls) {
  uint64_t mean = hak_sample_mean_of(heap->sample_setting);
  if (mean == 1) {
    return 0;
  }
  double gap = hak_chance_gap(hak_chance_unit(hak_chance_next(&heap->sample_random)));
  return (uint32_t)(gap * (double)mean / hak_class_sizes[cls]); /* gap < 37, and the quotient below 2^26 */
}

/* The thread sees that the setting changed. */
HAK_COLD static void catch_up(hak_heap_t *heap) {
  hak_cache_withdraw(heap);
  put_into_force();
  heap->sample_setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed);
  uint64_t seed = atomic_load(&sampler.seed);
  heap->sample_random = seed ? hak_chance_mix(atomic_fetch_add(&sampler.seed, 1)) : hak_os_random();
  bool on = hak_sample_mean_of(heap->sample_setting) != 0;
  for (uint32_t c = 1; c < HAK_CLASS_COUNT; c++) {
    heap->info[c].sample_left = on ? draw(heap, c) : 0;
    if (!on && c <= HAK_GRANT_LAST) {
      hak_policy_take_back(heap, c);
    }
  }
}

/* The thread's heap, or NULL, and the setting that it goes by. */
static hak_heap_t *up_to_date(uint64_t *setting) {
  hak_heap_t *heap = hak_heap_mine();
  *setting = atomic_load_explicit(&hak_sample_request, memory_order_relaxed);
  if (heap && HAK_UNLIKELY(heap->sample_setting != *setting)) {
    catch_up(heap);
    *setting = heap->sample_setting;
  }
  return heap;
}

static bool falls_on(hak_heap_t *heap, size_t bytes, uint64_t mean) {
  uint64_t bits = heap ? hak_chance_next(&heap->sample_random)
                       : hak_chance_mix(atomic_fetch_add(&sampler.random, HAK_CHANCE_STEP));
  return hak_chance_unit(bits) < hak_chance_of(bytes, mean);
}

/* Whether the next block of the class is the sample. */
static bool is_due(hak_heap_t *heap, uint32_t cls, size_t bytes, uint64_t setting) {
  if (!heap || cls == HAK_CLASS_HUGE) {
    return falls_on(heap, bytes, hak_sample_mean_of(setting));
  }
  hak_bin_info_t *info = &heap->info[cls];
  if (info->sample_left > 0) {
    info->sample_left--;
    return false;
  }
  info->sample_left = draw(heap, cls);
  return true;
}

/* Samples */

/* `block` NULL: one is taken for it. NULL: no memory. */
static void *sample(void *block, uint32_t cls, size_t asked, size_t bytes, uint64_t setting) {
  hak_sample_t made = {.block = block};
  hak_sample_t *record = block ? hak_record_new() : hak_slot_take(cls, &made);
  if (!record) {
    atomic_fetch_add_explicit(&sampler.dropped, 1, memory_order_relaxed);
    return NULL;
  }
  made.asked = asked;
  made.bytes = bytes;
  made.weight_bytes = hak_chance_weight(bytes, hak_sample_mean_of(setting));
  made.setting = setting;
  made.cls = cls;
  made.thread = hak_lock_id ? hak_lock_id : hak_lock_make_id();
  atomic_fetch_add_explicit(&sampler.taken, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&sampler.weight_bytes, (uint64_t)(made.weight_bytes + 0.5), memory_order_relaxed);
  hak_profile_allocated(&made);
  if (block) {
    hak_set_class(block, 1, HAK_CLASS_SAMPLED);
  }
  hak_record_put(record, &made);
  return made.block;
}

void hak_sample_put_back(hak_sample_t *record) {
  hak_set_class(record->block, 1, HAK_CLASS_SAMPLED);
  hak_record_put(record, NULL);
}

void hak_sample_end(hak_sample_t *record) {
  hak_profile_freed(record);
  hak_record_drop(record);
}

hak_sample_t *hak_sample_lift(const void *block) {
  hak_sample_t copy;
  bool large = hak_record_find(block, &copy) && copy.cls >= HAK_RUN_FIRST;
  hak_sample_t *record = large ? hak_record_take(block) : NULL;
  if (record) {
    hak_set_class(block, 1, record->cls);
  }
  return record;
}

uint32_t hak_sample_free(void *block) {
  hak_sample_t was;
  if (!hak_record_end(block, &was)) {
    hak_misuse("free", hak_slot_why(block), block);
  }
  hak_profile_freed(&was);
  if (was.cls >= HAK_RUN_FIRST) {
    hak_set_class(block, 1, was.cls);
    return was.cls;
  }
  hak_slot_give(block, was.cls, was.home);
  return HAK_CLASS_NONE;
}

size_t hak_sample_usable(const void *block, const char *function) {
  hak_sample_t copy;
  if (!hak_record_find(block, &copy)) {
    hak_misuse(function, hak_slot_why(block), block);
  }
  return copy.bytes;
}

/* On the way to a block */

/* Out of the bin before into the grant: in between, a fork loses it in the child, and has it nowhere twice. */
static void hand_over(hak_bin_t *bin, hak_grant_t *grant, hak_free_block_t *first, hak_free_block_t *rest, int32_t blocks) {
  bin->head = rest;
  atomic_signal_fence(memory_order_release);
  grant->head = first;
  atomic_store_explicit(&grant->room, -blocks, memory_order_relaxed);
}

void *hak_sample_grant(size_t bytes) {
  hak_heap_t *heap = hak_heap;
  uint32_t cls = hak_class_of(bytes);
  hak_bin_info_t *info = &heap->info[cls];
  hak_bin_t *bin = &heap->bin[cls];
  hak_free_block_t *block = bin->head, *next = block->link;
  int32_t capacity = hak_bin_capacity(info), count = capacity - hak_bin_room(bin);
  if (heap->sample_setting != atomic_load_explicit(&hak_sample_request, memory_order_relaxed) || cls > HAK_GRANT_LAST ||
      ((uintptr_t)next ^ block->tag) != heap->key || heap->grant[cls - 1].head != HAK_LIST_END ||
      count < (int32_t)info->grant_least || (uint32_t)count > info->sample_left) {
    return NULL;
  }
  info->sample_left -= (uint32_t)count;
  info->busy = true;
  hak_bin_set_room(bin, capacity);
  hand_over(bin, &heap->grant[cls - 1], next, HAK_LIST_END, count - 1);
  hak_mark_taken(block);
  return block;
}

void *hak_sample_count(size_t bytes) {
  uint64_t setting;
  uint32_t cls = hak_class_of(bytes);
  hak_heap_t *heap = up_to_date(&setting);
  if (hak_sample_mean_of(setting) == 0) {
    return NULL;
  }
  if (heap && cls <= HAK_GRANT_LAST && heap->grant[cls - 1].head != HAK_LIST_END) { /* the table is being changed */
    void *block = hak_bin_pop(heap, (hak_bin_t *)(void *)&heap->grant[cls - 1]);
    if (!block) {
      hak_slab_damaged("malloc", heap->grant[cls - 1].head);
    }
    return block;
  }
  return is_due(heap, cls, hak_class_sizes[cls], setting) ? sample(NULL, cls, bytes, hak_class_sizes[cls], setting) : NULL;
}

/* The first `blocks` of the bin's list are granted. */
static void grant_some(hak_heap_t *heap, uint32_t cls, int32_t blocks) {
  hak_bin_t *bin = &heap->bin[cls];
  hak_free_block_t *first = bin->head, *last = first;
  for (int32_t i = 1; i < blocks; i++) {
    if (!hak_is_linked(last, heap->key)) {
      hak_slab_damaged("malloc", last);
    }
    last = last->link;
  }
  if (!hak_is_linked(last, heap->key)) {
    hak_slab_damaged("malloc", last);
  }
  hak_free_block_t *rest = last->link;
  hak_bin_set_room(bin, hak_bin_room(bin) + blocks);
  hand_over(bin, &heap->grant[cls - 1], first, rest, blocks);
  hak_link(last, HAK_LIST_END, heap->key);
}

/* A class with few blocks in its cycle gets more of them, step by step, as far as memory for that goes. */
static void ask_for_more(hak_heap_t *heap, uint32_t cls, uint32_t has) {
  uint32_t most = GRANT_BYTES / hak_class_sizes[cls], more = has + GRANT_FIRST_BLOCKS;
  hak_bin_info_t *info = &heap->info[cls];
  most = most < GRANT_BLOCKS ? most : GRANT_BLOCKS;
  info->grant_least = most;
  if (has >= most) {
    return;
  }
  more = more < most - has ? more : most - has;
  if (!hak_policy_lend(heap, cls, more)) {
    info->grant_least = 1;
  } else if (heap->bin[cls].head == HAK_LIST_END) {
    hak_cache_stock(heap, cls, more);
  }
}

void hak_sample_grant_rest(size_t bytes) {
  hak_heap_t *heap = hak_heap;
  uint32_t cls = hak_class_of(bytes);
  if (cls > HAK_GRANT_LAST || hak_sample_mean_of(heap->sample_setting) == 0 ||
      heap->grant[cls - 1].head != HAK_LIST_END) {
    return;
  }
  hak_bin_info_t *info = &heap->info[cls];
  bool closed = atomic_load_explicit(&info->closed, memory_order_relaxed);
  uint32_t has = closed ? 0 : (uint32_t)(hak_bin_capacity(info) - hak_bin_room(&heap->bin[cls]));
  uint32_t granted = has < info->sample_left ? has : info->sample_left;
  if (granted > 0) {
    info->sample_left -= granted;
    grant_some(heap, cls, (int32_t)granted);
  }
  if (!closed) {
    ask_for_more(heap, cls, has + 1);
  }
}

void hak_sample_large(void *block, size_t bytes) {
  uint64_t setting;
  hak_heap_t *heap = up_to_date(&setting);
  uint32_t cls = hak_class_at(block);
  size_t counted = cls == HAK_CLASS_HUGE ? hak_huge_usable(block) : hak_class_sizes[cls];
  if (hak_sample_mean_of(setting) != 0 && is_due(heap, cls, counted, setting)) {
    sample(block, cls, bytes, counted, setting);
  }
}

/* Looking */

void hak_sample_each(void (*visit)(const hak_sample_t *sample, void *argument), void *argument) {
  hak_sample_t copy[HAK_RECORDS];
  for (hak_records_t *piece = atomic_load_explicit(&hak_records, memory_order_acquire); piece; piece = piece->next) {
    hak_lock(&hak_samples_lock);
    size_t count = 0;
    for (size_t i = 0; i < HAK_RECORDS; i++) {
      if (piece->sample[i].live) {
        copy[count++] = piece->sample[i];
      }
    }
    hak_unlock(&hak_samples_lock);
    for (size_t i = 0; i < count; i++) {
      visit(&copy[i], argument);
    }
  }
}

hak_sample_totals_t hak_sample_totals(void) {
  return (hak_sample_totals_t){.taken = atomic_load_explicit(&sampler.taken, memory_order_relaxed),
                               .live = hak_records_live(),
                               .weight_bytes = atomic_load_explicit(&sampler.weight_bytes, memory_order_relaxed),
                               .dropped = atomic_load_explicit(&sampler.dropped, memory_order_relaxed),
                               .slot_bytes = hak_slot_bytes()};
}
