#include "collaborators.h"

#include <stdio.h>
#include <string.h>

#include "access.h"
#include "misuse.h"
#include "options.h"
#include "os.h"
#include "races.h"
#include "window.h"

enum {
  GRAIN_BYTES = 512, /* blocks of the scenarios begin at multiples of it */
  GRAINS = HAK_UNIT_BYTES / GRAIN_BYTES,
  PAGE_BYTES = 4096,
};

static char *memory; /* of the units */
hak_window_t hak_window;
static hak_super_t descriptors;
static hak_slot_t slot = {.super = &descriptors};
static uint8_t class_map[HAK_SLOT_UNITS];
static bool taken[WORLD_UNITS], had[WORLD_UNITS][GRAINS];
static char arena_lock;

static size_t unit_of(const void *address) {
  return ((uintptr_t)address - (uintptr_t)memory) / HAK_UNIT_BYTES;
}

static bool is_in(const void *address, const void *object, size_t bytes) {
  return (uintptr_t)address - (uintptr_t)object < bytes;
}

static void describe(const void *address, char *text, size_t capacity) {
  size_t unit = unit_of(address);
  if (is_in(address, hak_slab_classes, sizeof hak_slab_classes)) {
    size_t at = (size_t)((const char *)address - (const char *)hak_slab_classes);
    snprintf(text, capacity, "class %zu + %zu", at / sizeof *hak_slab_classes, at % sizeof *hak_slab_classes);
  } else if (is_in(address, &descriptors, sizeof descriptors)) {
    size_t at = (size_t)((const char *)address - (const char *)&descriptors);
    snprintf(text, capacity, "slab %zu + %zu", at / sizeof(hak_slab_t), at % sizeof(hak_slab_t));
  } else if (unit < WORLD_UNITS) {
    snprintf(text, capacity, "byte %zu of unit %zu", (size_t)((uintptr_t)address % HAK_UNIT_BYTES), unit);
  } else if (is_in(address, had, sizeof had)) {
    size_t at = (size_t)((const char *)address - (const char *)had);
    snprintf(text, capacity, "(the program) block at %zu of unit %zu", at % GRAINS * GRAIN_BYTES, at / GRAINS);
  } else {
    snprintf(text, capacity, "%s", address == &arena_lock ? "the arena" : "something else");
  }
}

void world_make(void) {
  uintptr_t at = (uintptr_t)explore_memory((WORLD_UNITS + 1) * (size_t)HAK_UNIT_BYTES);
  memory = (char *)hak_round_up(at, HAK_UNIT_BYTES);
  explore_describe = describe;
}

void world_begin(void) {
  for (size_t at = 0; at < (size_t)WORLD_UNITS * HAK_UNIT_BYTES; at += GRAIN_BYTES) {
    memset(memory + at, 0, sizeof(hak_free_block_t));
  }
  hak_window = (hak_window_t){(uintptr_t)memory, WORLD_UNITS, class_map, &slot, 1, 1};
  hak_slab_init();
}

size_t world_used_units(void) {
  size_t used = 0;
  for (size_t unit = 0; unit < WORLD_UNITS; unit++) {
    used += taken[unit];
  }
  return used;
}

static bool *had_of(const void *block) {
  return &had[unit_of(block)][(uintptr_t)block % HAK_UNIT_BYTES / GRAIN_BYTES];
}

void world_took(void *block) {
  explore_point(STEP_WRITE, had_of(block));
  if (*had_of(block)) {
    explore_fail("the block at %zu of unit %zu is handed out twice", (size_t)((uintptr_t)block % HAK_UNIT_BYTES),
                 unit_of(block));
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

/* Blocks and descriptors of a unit that nobody has may not be written, and its blocks not be read either. */
void access_seen(const void *address, bool write) {
  size_t unit = unit_of(address);
  if (unit < WORLD_UNITS && !taken[unit]) {
    explore_fail("unit %zu is touched, which was given back", unit);
  }
  unit = ((uintptr_t)address - (uintptr_t)&descriptors) / sizeof(hak_slab_t);
  if (write && unit < WORLD_UNITS && !taken[unit]) {
    explore_fail("the descriptor of unit %zu is written, which was given back", unit);
  }
}

static uint32_t bits_set(const hak_slab_t *slab) {
  uint32_t set = 0;
  for (uint32_t w = 0; w * 64 < slab->blocks; w++) {
    set += (uint32_t)__builtin_popcountll(slab->bits[w]);
  }
  return set;
}

size_t hak_arena_take(size_t units, size_t align_units, bool *zeroed) {
  EXPECT(units == 1 && align_units == 1);
  explore_point(STEP_WRITE, &arena_lock);
  races_acquire(&arena_lock);
  *zeroed = false;
  for (size_t unit = 0; unit < WORLD_UNITS; unit++) {
    if (!taken[unit]) {
      taken[unit] = true;
      return unit;
    }
  }
  return HAK_ARENA_NONE;
}

void hak_arena_give(size_t first, size_t units) {
  EXPECT(units == 1);
  if (explore_holds_lock()) {
    explore_fail("a unit is given back under a lock");
  }
  explore_point(STEP_WRITE, &arena_lock);
  races_release(&arena_lock, true);
  const hak_slab_t *slab = &descriptors.slabs[first];
  if (first >= WORLD_UNITS || !taken[first]) {
    explore_fail("unit %zu is given back twice", first);
  }
  if (class_map[first] != HAK_CLASS_NONE || slab->cls != HAK_CLASS_NONE) {
    explore_fail("unit %zu is given back and still has a class", first);
  }
  for (size_t grain = 0; grain < GRAINS; grain++) {
    if (had[first][grain]) {
      explore_fail("unit %zu is given back while its block at %zu is out", first, grain * GRAIN_BYTES);
    }
  }
  if (bits_set(slab) != slab->carved) {
    explore_fail("unit %zu is given back with %u of %u blocks", first, bits_set(slab), (unsigned)slab->carved);
  }
  taken[first] = false;
}

size_t hak_arena_used_units(void) {
  return world_used_units();
}

hak_arena_totals_t hak_arena_totals(void) {
  return (hak_arena_totals_t){.used_units = world_used_units(), .mapped_slots = 1, .slots_used = 1};
}

size_t hak_os_page_bytes(void) {
  return PAGE_BYTES;
}

uint64_t hak_os_random(void) {
  return 0x5eed5eed5eed5eed;
}

bool hak_os_discard(void *at, size_t bytes) {
  size_t unit = unit_of(at), from = (uintptr_t)at % HAK_UNIT_BYTES, block_bytes = descriptors.slabs[unit].block_bytes;
  for (size_t grain = 0; grain < GRAINS; grain++) {
    size_t start = grain * GRAIN_BYTES;
    if (had[unit][grain] && start < from + bytes && start + block_bytes > from) {
      explore_fail("a page of a block that is out is discarded");
    }
    if (start >= from && start < from + bytes) {
      memset(memory + unit * HAK_UNIT_BYTES + start, 0, sizeof(hak_free_block_t));
    }
  }
  return true;
}

_Noreturn void hak_misuse(const char *function, hak_misuse_t reason, const void *block) {
  if (explore_is_crime()) {
    explore_stop();
  }
  explore_fail("%s() finds misuse %d of the block at %zu of unit %zu where there is none", function, (int)reason,
               (size_t)((uintptr_t)block % HAK_UNIT_BYTES), unit_of(block));
}

_Noreturn void hak_verify_failed(const char *condition, const char *file, int line) {
  explore_fail("%s:%d: not so: %s", file, line, condition);
}

static size_t check_list(uint32_t cls) {
  size_t listed = 0;
  const hak_slab_t *before = NULL;
  for (const hak_slab_t *slab = hak_slab_classes[cls].first; slab; before = slab, slab = slab->next) {
    EXPECT(slab->prev == before && slab->cls == cls && (slab->control & HAK_SLAB_LISTED));
    EXPECT(taken[slab - descriptors.slabs] && class_map[slab - descriptors.slabs] == cls);
    EXPECT(++listed <= WORLD_UNITS);
  }
  EXPECT(hak_slab_classes[cls].last == before && hak_slab_classes[cls].lock.model.owner == 0);
  return listed;
}

void world_check(size_t current, bool counts) {
  size_t listed = 0, marked_listed = 0, marked_current = 0;
  for (uint32_t cls = 1; cls < HAK_CLASS_COUNT; cls++) {
    listed += check_list(cls);
  }
  for (size_t unit = 0; unit < WORLD_UNITS; unit++) {
    const hak_slab_t *slab = &descriptors.slabs[unit];
    uint32_t carved = slab->carved, count = bits_set(slab);
    bool is_listed = slab->control & HAK_SLAB_LISTED, is_current = slab->control & HAK_SLAB_CURRENT;
    if (!taken[unit] || slab->cls == HAK_CLASS_NONE) {
      EXPECT(class_map[unit] == HAK_CLASS_NONE && (!taken[unit] || !counts));
      continue;
    }
    EXPECT(class_map[unit] == slab->cls && carved <= slab->blocks && !(is_listed && is_current));
    marked_listed += is_listed;
    marked_current += is_current;
    if (counts) {
      EXPECT(slab->control >> HAK_SLAB_COUNT_SHIFT == count);
      EXPECT(is_current ||
             (is_listed ? count < carved || carved < slab->blocks : count == 0 && carved == slab->blocks));
      EXPECT(is_current || count < carved); /* else it should have been given back */
    }
  }
  EXPECT(listed == marked_listed && (marked_current == current || !counts));
}
