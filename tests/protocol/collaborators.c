#include "collaborators.h"

#include <stdio.h>
#include <string.h>

#include "access.h"
#include "blocks/freed.h"
#include "blocks/gap.h"
#include "blocks/mixed.h"
#include "pages/pagemap.h"
#include "races.h"
#include "system/os.h"

enum {
  GRAIN_BYTES = 512, /* blocks of the scenarios begin at multiples of it */
  GRAINS = HAK_SLAB_BYTES / GRAIN_BYTES,
  PAGE_BYTES = 4096,
};

static char *memory; /* of the slabs */
_Atomic uintptr_t hak_leaves[HAK_LEAVES];
uint32_t hak_first_slab;
static hak_slabs_t descriptors;
static hak_chunk_t chunk = {.slabs = &descriptors};
static _Atomic uint8_t codes[HAK_CHUNK_SLICES];
static bool taken[WORLD_SLABS], had[WORLD_SLABS][GRAINS];
static char arena_lock;

static size_t place_of(const void *address) {
  return ((uintptr_t)address - (uintptr_t)memory) / HAK_SLAB_BYTES;
}

static bool is_in(const void *address, const void *object, size_t bytes) {
  return (uintptr_t)address - (uintptr_t)object < bytes;
}

static void describe(const void *address, char *text, size_t capacity) {
  size_t place = place_of(address);
  if (is_in(address, hak_slab_classes, sizeof hak_slab_classes)) {
    size_t at = (size_t)((const char *)address - (const char *)hak_slab_classes);
    snprintf(text, capacity, "class %zu + %zu", at / sizeof *hak_slab_classes, at % sizeof *hak_slab_classes);
  } else if (is_in(address, &descriptors.slab, sizeof descriptors.slab)) {
    size_t at = (size_t)((const char *)address - (const char *)&descriptors.slab);
    snprintf(text, capacity, "slab %zu + %zu", at / sizeof(hak_slab_t), at % sizeof(hak_slab_t));
  } else if (place < WORLD_SLABS) {
    snprintf(text, capacity, "byte %zu of slab %zu", (size_t)((uintptr_t)address % HAK_SLAB_BYTES), place);
  } else if (is_in(address, had, sizeof had)) {
    size_t at = (size_t)((const char *)address - (const char *)had);
    snprintf(text, capacity, "(the program) block at %zu of slab %zu", at % GRAINS * GRAIN_BYTES, at / GRAINS);
  } else {
    snprintf(text, capacity, "%s", address == &arena_lock ? "the arena" : "something else");
  }
}

void world_make(void) {
  uintptr_t at = (uintptr_t)explore_memory(2 * (size_t)HAK_CHUNK_BYTES);
  memory = (char *)hak_round_up(at, HAK_CHUNK_BYTES);
  hak_leaves[(uintptr_t)memory >> HAK_LEAF_SHIFT] = (uintptr_t)codes - hak_pagemap_slice(memory);
  explore_describe = describe;
}

void world_begin(void) {
  for (size_t at = 0; at < (size_t)WORLD_SLABS * HAK_SLAB_BYTES; at += GRAIN_BYTES) {
    memset(memory + at, 0, sizeof(hak_free_block_t));
  }
  hak_freed_start();
}

size_t world_used(void) {
  size_t used = 0;
  for (size_t place = 0; place < WORLD_SLABS; place++) {
    used += taken[place];
  }
  return used;
}

static bool *had_of(const void *block) {
  return &had[place_of(block)][(uintptr_t)block % HAK_SLAB_BYTES / GRAIN_BYTES];
}

void world_took(void *block) {
  explore_point(STEP_WRITE, had_of(block));
  if (*had_of(block)) {
    explore_fail("the block at %zu of slab %zu is handed out twice", (size_t)((uintptr_t)block % HAK_SLAB_BYTES),
                 place_of(block));
  }
  *had_of(block) = true;
}

void world_frees(void *block) {
  explore_point(STEP_WRITE, had_of(block));
  *had_of(block) = false;
}

bool world_has(const void *block) {
  return *had_of(block);
}

uint32_t world_class(const void *block) {
  return hak_pagemap_class(memory + place_of(block) * HAK_SLAB_BYTES);
}

/* While no thread owns a slab, no access to its blocks is allowed, and no write to its descriptor. */
void access_seen(const void *address, bool write) {
  size_t place = place_of(address);
  if (place < WORLD_SLABS && !taken[place]) {
    explore_fail("slab %zu is touched, which was given back", place);
  }
  place = ((uintptr_t)address - (uintptr_t)&descriptors.slab) / sizeof(hak_slab_t);
  if (write && place < WORLD_SLABS && !taken[place]) {
    explore_fail("the descriptor of slab %zu is written, which was given back", place);
  }
}

/* A thread that holds a class's lock decides the state of a slab, so it must not read old values. Two fields are
 * exceptions: by the class, it learns whether the slab is still the same one; the bump index matters only while no
 * thread takes new blocks. */
void access_stale(const void *address) {
  size_t at = (size_t)((const char *)address - (const char *)&descriptors.slab);
  size_t field = at % sizeof(hak_slab_t);
  bool expected = field == offsetof(hak_slab_t, cls) || field == offsetof(hak_slab_t, bump);
  if (at < sizeof descriptors.slab && explore_holds_lock() && !expected) {
    explore_fail("slab %zu + %zu is read under the lock, and the value may be an old one", at / sizeof(hak_slab_t),
                 field);
  }
}

static uint32_t bits_set(const hak_slab_t *slab) {
  uint32_t set = 0;
  for (uint32_t w = 0; w * 64 < slab->blocks; w++) {
    set += (uint32_t)__builtin_popcountll(slab->bits[w]);
  }
  return set;
}

static void arena_step(void) {
  if (explore_holds_lock()) {
    explore_fail("the arena is called under a lock");
  }
  explore_point(STEP_WRITE, &arena_lock);
}

void hak_huge_pages_fill(void *base, size_t slices, size_t every) {
  EXPECT(base && slices == 0 && every >= HAK_BLOCK_MIN);
}

bool hak_retain_keeps_all(void) {
  return false;
}

/* Only the hardened profile asks. */
bool hak_move_is_zero(const void *at, size_t bytes) {
  return at != NULL && bytes == 0;
}

/* No slab here has a guard. */
char *hak_gap_take_slab(size_t slices, bool *zeroed) {
  (void)slices, (void)zeroed;
  return NULL;
}

bool hak_gap_open_behind(char *base, size_t slices) {
  return base != NULL && slices == 0;
}

/* No slab of the model is mixed: all returns to those are under one lock. */
size_t hak_mixed_put(hak_slab_t *slab, const void *block, uint32_t cls, const char *function) {
  EXPECT(!slab || !block || cls == 0 || !function);
  return 0;
}

void hak_mixed_check(const hak_slab_t *slab) {
  EXPECT(!slab);
}

uint32_t hak_pagemap_class_in_mixed(const void *address) {
  EXPECT(!address);
  return HAK_CLASS_NONE;
}

void *hak_arena_take(size_t slices, size_t align, bool *zeroed) {
  EXPECT(slices <= HAK_SLAB_SLICES && align == HAK_SLAB_SLICES);
  arena_step();
  races_acquire(&arena_lock);
  *zeroed = false;
  for (size_t place = 0; place < WORLD_SLABS; place++) {
    if (!taken[place]) {
      taken[place] = true;
      return memory + place * HAK_SLAB_BYTES;
    }
  }
  return NULL;
}

bool hak_arena_put(void *base, size_t slices) {
  size_t place = place_of(base);
  arena_step();
  races_release(&arena_lock, true);
  const hak_slab_t *slab = &descriptors.slab[place];
  if (place >= WORLD_SLABS || !taken[place]) {
    explore_fail("slab %zu is given back twice", place);
  }
  if (slices != slab->slices || hak_pagemap_class(base) != HAK_CLASS_NONE || slab->cls != HAK_CLASS_NONE) {
    explore_fail("slab %zu is given back and still has a class, or in part", place);
  }
  for (size_t grain = 0; grain < GRAINS; grain++) {
    if (had[place][grain]) {
      explore_fail("slab %zu is given back while its block at %zu is out", place, grain * GRAIN_BYTES);
    }
  }
  if (bits_set(slab) != slab->bump) {
    explore_fail("slab %zu is given back with %u of %u blocks", place, bits_set(slab), (unsigned)slab->bump);
  }
  taken[place] = false;
  return false;
}

bool hak_purge_after_free(size_t slices) {
  explore_fail("%zu slices are due, and none were", slices);
}

bool hak_mapping_is_low(void) {
  return false;
}

hak_chunk_t *hak_pagemap_chunk(const void *address) {
  EXPECT(place_of(address) < WORLD_SLABS);
  return &chunk;
}

void hak_arena_each_slab(void (*visit)(hak_slab_t *slab, void *context), void *context) {
  for (size_t place = 0; place < WORLD_SLABS; place++) {
    visit(&descriptors.slab[place], context);
  }
}

size_t hak_retain_used_slices(void) {
  return world_used() * HAK_SLAB_SLICES;
}

size_t hak_os_page_bytes(void) {
  return PAGE_BYTES;
}

uint64_t hak_os_random(void) {
  return 0x5eed5eed5eed5eed;
}

bool hak_os_discard(void *at, size_t bytes) {
  size_t place = place_of(at), from = (uintptr_t)at % HAK_SLAB_BYTES, block_bytes = descriptors.slab[place].block_bytes;
  for (size_t grain = 0; grain < GRAINS; grain++) {
    size_t start = grain * GRAIN_BYTES;
    if (had[place][grain] && start < from + bytes && start + block_bytes > from) {
      explore_fail("a page of a block that is out is discarded");
    }
    if (start >= from && start < from + bytes) {
      memset(memory + place * HAK_SLAB_BYTES + start, 0, sizeof(hak_free_block_t));
    }
  }
  return true;
}

_Noreturn void hak_misuse(const char *function, hak_misuse_t reason, const void *block) {
  if (explore_is_crime()) {
    explore_stop();
  }
  explore_fail("%s() finds misuse %d of the block at %zu of slab %zu where there is none", function, (int)reason,
               (size_t)((uintptr_t)block % HAK_SLAB_BYTES), place_of(block));
}

void hak_misuse_met(const char *function, hak_misuse_t reason, const void *block) {
  hak_misuse(function, reason, block);
}

bool hak_misuse_is_reported(void) {
  return false;
}

_Noreturn void hak_misuse_verify_failed(const char *condition, const char *file, size_t line) {
  explore_fail("%s:%zu: not so: %s", file, line, condition);
}

static size_t check_list(uint32_t cls) {
  size_t listed = 0;
  const hak_slab_class_t *class = &hak_slab_classes[cls];
  for (int list = 0; list < HAK_SLABS_LISTS; list++) {
    const hak_slab_t *before = NULL;
    for (const hak_slab_t *slab = class->list[list].first; slab; before = slab, slab = slab->next) {
      EXPECT(slab->prev == before && slab->cls == cls && (slab->control & HAK_SLAB_LISTED) && slab->list == list);
      EXPECT(taken[slab - descriptors.slab] && hak_pagemap_class(slab->base) == cls);
      EXPECT(++listed <= WORLD_SLABS);
    }
    EXPECT(class->list[list].last == before);
  }
  EXPECT(class->lock.model.owner == 0);
  return listed;
}

void world_check(size_t current, bool counts) {
  size_t listed = 0, marked_listed = 0, marked_current = 0;
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    listed += check_list(cls);
  }
  for (size_t place = 0; place < WORLD_SLABS; place++) {
    const hak_slab_t *slab = &descriptors.slab[place];
    uint32_t bump = slab->bump, count = bits_set(slab);
    bool is_listed = slab->control & HAK_SLAB_LISTED, is_current = slab->control & HAK_SLAB_CURRENT;
    if (!taken[place] || slab->cls == HAK_CLASS_NONE) {
      EXPECT(hak_pagemap_class(memory + place * HAK_SLAB_BYTES) == HAK_CLASS_NONE && (!taken[place] || !counts));
      continue;
    }
    bool unfinished = !counts && is_current &&
                      hak_pagemap_class(slab->base) == HAK_CLASS_NONE; /* the slab is lost, but harms nothing */
    EXPECT(unfinished || hak_pagemap_class(slab->base) == slab->cls);
    EXPECT(bump <= slab->blocks && !(is_listed && is_current));
    marked_listed += is_listed;
    marked_current += is_current;
    if (counts) {
      EXPECT(slab->control >> HAK_SLAB_COUNT_SHIFT == count);
      EXPECT(is_current || (is_listed ? count < bump || bump < slab->blocks : count == 0 && bump == slab->blocks));
      EXPECT(is_current || count < bump); /* else it should have gone back to the arena */
    }
  }
  EXPECT(listed == marked_listed && (marked_current == current || !counts));
}

void world_before_fork(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    hak_lock(&hak_slab_classes[cls].lock);
  }
}

void world_after_fork(void) {
  for (uint32_t cls = 1; cls < HAK_RUN_FIRST; cls++) {
    if (explore_is_child()) {
      hak_slab_classes[cls].lock.model.owner = 0;
    } else {
      hak_unlock(&hak_slab_classes[cls].lock);
    }
  }
}
