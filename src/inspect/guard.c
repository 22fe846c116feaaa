/* Guarded blocks, between pages without access. The sampler chooses them; fault.c reports a fault there. */
#include "guard.h"

#include "hakmem.h"
#include "modules.h"
#include "pages/pages.h"
#include "unwind.h"

#include <string.h>

enum {
  PATTERN = 0xd7,
  LEFT_ONE_IN = 4, /* one block in this many lies at the start of its page */
};

static struct pool {
  char *base;
  size_t bytes, page, slots;
  hak_guard_slot_t *slot;
  hak_guard_slot_t *first, *last; /* the queue of usable slots */
} pool;

static void note_event(hak_guard_event_t *event) {
  uintptr_t pcs[HAK_UNWIND_MAX];
  size_t count = hak_unwind(pcs);
  event->count = (uint32_t)(count < HAK_GUARD_FRAMES ? count : HAK_GUARD_FRAMES);
  hak_copy_words(event->pcs, pcs, event->count);
  event->thread = hak_lock_my_id();
}

static void append(hak_guard_slot_t *slot) {
  slot->next = NULL;
  hak_lock(&hak_samples_lock);
  *(pool.last ? &pool.last->next : &pool.first) = slot;
  pool.last = slot;
  hak_unlock(&hak_samples_lock);
}

/* A buffer of HAK_MAPS_BUFFER_BYTES, which a signal's stack may be too small for. NULL: reports name no files. */
static char *rows;

/* Discard the content first, by a call that other libraries may watch. */
static hak_guard_access_t shut(void *at, size_t bytes) {
  hak_os_discard(at, bytes);
  return hak_os_guard(at, bytes) ? HAK_GUARD_ADVISED : hak_os_close(at, bytes) ? HAK_GUARD_PROTECTED : HAK_GUARD_OPEN;
}

/* The page may then read as zeros. False: it failed. */
static bool open_page(const hak_guard_slot_t *slot) {
  return slot->access == HAK_GUARD_OPEN ||
         (slot->access == HAK_GUARD_ADVISED ? hak_os_unguard : hak_os_make_writable)(slot->page, pool.page);
}

bool hak_guard_make_pool(size_t slots) {
  size_t page = hak_os_page_bytes(), align = page > HAK_SLICE_BYTES ? page : HAK_SLICE_BYTES;
  size_t bytes = hak_round_up((2 * slots + 1) * page, align);
  hak_guard_slot_t *all = pool.slots > 0 ? NULL : hak_meta_alloc(slots * sizeof *all);
  rows = rows ? rows : hak_meta_alloc(HAK_MAPS_BUFFER_BYTES);
  char *base = all ? hak_os_map_aligned(NULL, bytes, align) : NULL;
  if (!base) {
    return false;
  }
  hak_os_decline_huge(base, bytes);
  hak_guard_access_t access = shut(base, bytes);
  if (access == HAK_GUARD_OPEN || !hak_pagemap_cover(base, bytes)) {
    hak_os_unmap_unused(base, bytes);
    return false;
  }
  pool = (struct pool){.base = base, .bytes = bytes, .page = page, .slots = slots, .slot = all};
  for (size_t i = 0; i < slots; i++) {
    all[i].page = base + (2 * i + 1) * page;
    all[i].access = access;
    append(&all[i]);
  }
  hak_pagemap_set_class(base, bytes >> HAK_SLICE_SHIFT, HAK_CLASS_SAMPLED);
  return true;
}

size_t hak_guard_usable(size_t asked) {
  return asked < HAK_BLOCK_MIN ? HAK_BLOCK_MIN : asked; /* calloc clears this much */
}

static hak_guard_slot_t *oldest(void) {
  hak_lock(&hak_samples_lock);
  hak_guard_slot_t *slot = pool.first;
  if (slot) {
    pool.first = slot->next;
    pool.last = pool.first ? pool.last : NULL;
  }
  hak_unlock(&hak_samples_lock);
  return slot;
}

uint32_t hak_guard_take(size_t bytes, uint64_t bits, void **block) {
  size_t usable = hak_guard_usable(bytes), rounded = hak_round_up(usable, HAK_BLOCK_MIN);
  if (rounded > pool.page) {
    return 0;
  }
  hak_guard_slot_t *slot = oldest();
  if (!slot || !open_page(slot)) {
    if (slot) {
      append(slot);
    }
    return 0;
  }
  memset(slot->page, PATTERN, pool.page);
  slot->access = HAK_GUARD_OPEN;
  slot->block = slot->page + (bits % LEFT_ONE_IN == 0 ? 0 : pool.page - rounded);
  slot->bytes = usable;
  slot->freed.count = 0;
  note_event(&slot->allocated);
  atomic_store_explicit(&slot->state, HAK_GUARD_LIVE, memory_order_release);
  *block = slot->block;
  return (uint32_t)(slot - pool.slot) + 1;
}

/* The first byte in [from, to) that differs from the pattern; `to` if none does. */
static const char *written(const char *from, const char *to) {
  while (from < to && *(const unsigned char *)from == PATTERN) {
    from++;
  }
  return from;
}

void hak_guard_give(uint32_t number) {
  hak_guard_slot_t *slot = &pool.slot[number - 1];
  const char *end = slot->page + pool.page, *at = written(slot->block + slot->bytes, end);
  bool over = at != end;
  at = over ? at : written(slot->page, slot->block);
  note_event(&slot->freed);
  if (over || at != slot->block) {
    hak_text_say("hakmem: %s: 0x%zx was written, beside a block that is being freed\n", over ? "overflow" : "underflow",
                 (uintptr_t)at);
    hak_guard_explain(slot);
    hak_misuse("free", over ? HAK_MISUSE_OVERFLOW : HAK_MISUSE_UNDERFLOW, slot->block);
  }
  atomic_store_explicit(&slot->state, HAK_GUARD_FREED, memory_order_release);
  slot->access = shut(slot->page, pool.page);
  append(slot);
}

/* Choose between the two neighbours of a guard page: the one in the more likely state, else the nearer one. */
static size_t choose(size_t left, bool left_is_nearer) {
  const hak_guard_slot_t *slots = pool.slot;
  uint32_t before = slots[left].state, behind = slots[left + 1].state;
  if (before != behind) {
    return behind > before ? left + 1 : left;
  }
  return left_is_nearer ? left : left + 1;
}

const hak_guard_slot_t *hak_guard_slot_of(const void *address) {
  size_t offset = (size_t)((const char *)address - pool.base), page = pool.page ? offset / pool.page : 0;
  if ((uintptr_t)address < (uintptr_t)pool.base || offset >= pool.bytes) {
    return NULL;
  }
  size_t slot = page / 2 < pool.slots ? page / 2 : pool.slots - 1;
  if (page % 2 == 0 && page > 0 && slot == page / 2) {
    slot = choose(slot - 1, offset % pool.page < pool.page / 2);
  }
  return &pool.slot[slot];
}

/* The report on stderr. */

void hak_guard_say_event(const char *what, const hak_guard_event_t *event) {
  hak_text_say("hakmem:   %s by thread %zu:\n", what, (size_t)event->thread);
  for (size_t i = 0; i < event->count; i++) {
    hak_mapping_t in;
    uintptr_t pc = event->pcs[i];
    hak_text_say("hakmem:     0x%zx", pc);
    if (rows && !hak_os_is_filtered() && hak_maps_find(pc, &in, rows) && in.name[0]) {
      hak_text_say(" %s", in.name);
      hak_text_say("+0x%zx", pc - in.start + in.offset);
    }
    hak_text_say("\n");
  }
}

void hak_guard_explain(const hak_guard_slot_t *slot) {
  if (slot->state == HAK_GUARD_UNUSED) {
    return;
  }
  hak_text_say("hakmem:   block of %zu bytes at 0x%zx\n", slot->bytes, (uintptr_t)slot->block);
  hak_guard_say_event("allocated", &slot->allocated);
  if (slot->freed.count > 0 || slot->state == HAK_GUARD_FREED) {
    hak_guard_say_event("freed", &slot->freed);
  }
}
