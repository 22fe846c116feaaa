/* Restores pages that the program protected or excluded from its forked children, before their block is freed. The slow
 * path of free calls this; protection.c marks the pages. */
#include "page_attributes.h"

#include "threads/threads.h"

_Atomic uint32_t hak_page_attributes_ways;

/* The pages that one word or bit of a chunk's `attributes` describes. All chunks of a huge block share one descriptor,
 * and one bit. */
typedef struct part {
  hak_chunk_t *chunk;
  _Atomic uint64_t *word;
  uint64_t bits;
  uintptr_t end;
} part_t;

/* The part that begins at `at` (aligned to a slice), with one bit for each of its pages inside the range. */
static part_t part_of(uintptr_t at, uintptr_t first, uintptr_t last) {
  part_t part = {.chunk = hak_pagemap_chunk((void *)at), .bits = 1, .end = at + HAK_SLICE_BYTES};
  if (!part.chunk) {
    return part;
  }
  part.word = &part.chunk->attributes[0];
  if (part.chunk->state == HAK_CHUNK_HUGE) {
    part.end = (uintptr_t)part.chunk->base + (part.chunk->chunks << HAK_CHUNK_SHIFT);
    return part;
  }
  uintptr_t page = at % HAK_CHUNK_BYTES >> HAK_PAGE_SHIFT;
  part.word += page / 64;
  part.bits = 0;
  for (; at < part.end; at += 1 << HAK_PAGE_SHIFT, page++) {
    part.bits |= (uint64_t)(at >= first && at < last) << page % 64;
  }
  return part;
}

void hak_page_attributes_note(const void *address, size_t bytes, hak_os_attribute_t how) {
  uintptr_t first = (uintptr_t)address & -((uintptr_t)1 << HAK_PAGE_SHIFT), last = (uintptr_t)address + bytes;
  const hak_chunk_t *chunk = hak_pagemap_chunk(address);
  bool ours = chunk && chunk->state != HAK_CHUNK_GONE;
  if (ours || how == HAK_OS_UNFORKED || hak_hook_hardened.owner(address)) { /* the second may begin in a block's page */
    atomic_fetch_or_explicit(&hak_page_attributes_ways, how, memory_order_relaxed);
  }
  if (!ours) {
    return;
  }
  uint64_t classes = hak_heap_class_bit(HAK_CLASS_HUGE); /* a block that begins before the chunk is huge */
  uintptr_t at = first & -(uintptr_t)HAK_SLICE_BYTES;
  while (hak_pagemap_slice_class((void *)at) == HAK_CLASS_NONE && at % HAK_CHUNK_BYTES != 0) {
    at -= HAK_SLICE_BYTES;
  }
  for (part_t part; at < last && (part = part_of(at, first, last)).chunk; at = part.end) {
    uint32_t cls = hak_pagemap_slice_class((void *)at);
    classes |= cls == HAK_CLASS_SAMPLED ? ~0ULL : hak_heap_class_bit(cls); /* a sample may be of any class */
    atomic_fetch_or_explicit(part.word, part.bits, memory_order_relaxed);
  }
  hak_heap_force_slow(classes);
}

bool hak_page_attributes_restore_range(char *from, const char *to) {
  uintptr_t page = hak_os_page_bytes(), first = hak_round_up((uintptr_t)from, page), last = (uintptr_t)to & -page;
  uint64_t attributes = 0;
  part_t part;
  if (!hak_page_attributes_any()) {
    return true;
  }
  for (uintptr_t at = first & -(uintptr_t)HAK_SLICE_BYTES; at < last; at = part.end) {
    part = part_of(at, first, last);
    if (atomic_load_explicit(part.word, memory_order_relaxed) & part.bits) {
      attributes |= atomic_fetch_and_explicit(part.word, ~part.bits, memory_order_relaxed) & part.bits;
    }
  }
  return attributes == 0 || hak_os_make_ordinary((void *)first, last - first,
                                                 atomic_load_explicit(&hak_page_attributes_ways, memory_order_relaxed));
}

bool hak_page_attributes_restore(void *block, uint32_t cls, const char *function) {
  if (!hak_page_attributes_any()) {
    return true;
  }
  size_t usable =
      cls == HAK_CLASS_SAMPLED ? hak_hook_sampler.part.usable(block, function) : hak_block_usable(block, cls);
  return hak_page_attributes_restore_range(block, (char *)block + usable);
}
