#include "window.h"

#include "meta.h"
#include "os.h"

enum {
  SLOTS_READY_STEP = 4096, /* slots whose table entries are made writable at a time: 128 KiB of the class map */
};

#define WINDOW_MAX ((size_t)1 << 40)
#define WINDOW_MIN ((size_t)1 << 32)

hak_window_t hak_window;

/* Large enough to hold what the process may map, small against the distance to its other mappings. */
static size_t window_bytes(uintptr_t near) {
  size_t bytes = WINDOW_MAX;
  if (HAK_SANITIZED) { /* the shadow leaves little room beside the kernel's range */
    bytes = (size_t)1 << 36;
  }
  size_t limit = hak_os_address_space_limit();
  while (bytes > WINDOW_MIN && (bytes / 4 >= limit || bytes > near / 4)) {
    bytes /= 2;
  }
  return bytes;
}

/* Whole steps, so that making the last of them writable touches nothing beyond the tables. */
static bool make_tables(size_t units) {
  size_t slots = units / HAK_SLOT_UNITS + SLOTS_READY_STEP - 1;
  slots -= slots % SLOTS_READY_STEP;
  units = slots * HAK_SLOT_UNITS;
  uint8_t *classes = hak_os_map_readonly(units);
  if (!classes) {
    return false;
  }
  hak_slot_t *table = hak_os_map_readonly(slots * sizeof(hak_slot_t));
  if (!table) {
    hak_os_unmap(classes, units);
    return false;
  }
  hak_window.classes = classes;
  hak_window.slots = table;
  return true;
}

bool hak_window_create(void) {
  uintptr_t near = (uintptr_t)hak_os_probe();
  if (near == 0) {
    return false;
  }
  size_t bytes = window_bytes(near);
  if (!make_tables(bytes >> HAK_UNIT_SHIFT)) {
    return false;
  }
  /* Below the kernel's own mappings, which grow downwards, with a gap of the window's size / 4. */
  hak_window.base = (near - bytes - bytes / 4) & ~(uintptr_t)(((size_t)1 << 30) - 1);
  hak_window.units = bytes >> HAK_UNIT_SHIFT;
  return true;
}

static bool tables_ready(size_t slots) {
  while (hak_window.slots_ready < slots) {
    size_t first = hak_window.slots_ready;
    if (!hak_os_make_writable(hak_window.classes + first * HAK_SLOT_UNITS, (size_t)SLOTS_READY_STEP * HAK_SLOT_UNITS) ||
        !hak_os_make_writable(&hak_window.slots[first], SLOTS_READY_STEP * sizeof(hak_slot_t))) {
      return false;
    }
    hak_window.slots_ready += SLOTS_READY_STEP;
  }
  return true;
}
_Static_assert(SLOTS_READY_STEP * sizeof(hak_slot_t) % HAK_UNIT_BYTES == 0, "whole pages, up to 64 KiB");

static bool supers_ready(size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++) {
    hak_slot_t *slot = &hak_window.slots[i];
    if (!slot->super && !(slot->super = hak_meta_alloc(sizeof(hak_super_t)))) {
      return false;
    }
  }
  return true;
}

static void set_mapped(size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++) {
    hak_slot_t *slot = &hak_window.slots[i];
    slot->state = HAK_SLOT_MAPPED;
    slot->super->free = UINT32_MAX;
    slot->super->dirty = slot->super->aged = 0;
  }
  if (hak_window.slots_used < first + count) {
    hak_window.slots_used = first + count;
  }
}

bool hak_window_map(size_t first, size_t count, bool huge_pages, bool *occupied) {
  *occupied = false;
  if (!tables_ready(first + count) || !supers_ready(first, count)) {
    return false;
  }
  for (size_t i = first; i < first + count;) {
    if (hak_window.slots[i].state == HAK_SLOT_MAPPED) {
      i++;
      continue;
    }
    size_t end = i + 1;
    while (end < first + count && hak_window.slots[end].state == HAK_SLOT_UNMAPPED) {
      end++;
    }
    char *at = hak_window_address(i * HAK_SLOT_UNITS);
    hak_os_map_result_t result = hak_os_map_at(at, (end - i) << HAK_SLOT_SHIFT);
    if (result == HAK_OS_OCCUPIED && end - i > 1) { /* find out which one */
      end = i + 1;
      result = hak_os_map_at(at, HAK_SLOT_BYTES);
    }
    if (result == HAK_OS_OCCUPIED) {
      hak_window.slots[i].state = HAK_SLOT_FOREIGN;
      hak_window.slots_used = hak_window.slots_used > i + 1 ? hak_window.slots_used : i + 1;
      *occupied = true;
    }
    if (result != HAK_OS_MAPPED) {
      return false;
    }
    if (huge_pages) {
      hak_os_prefer_huge(at, (end - i) << HAK_SLOT_SHIFT);
    }
    set_mapped(i, end - i);
    i = end;
  }
  return true;
}

bool hak_window_unmap(size_t index) {
  hak_slot_t *slot = &hak_window.slots[index];
  if (!hak_os_unmap(hak_window_address(index * HAK_SLOT_UNITS), HAK_SLOT_BYTES)) {
    return false;
  }
  slot->state = HAK_SLOT_UNMAPPED;
  slot->super->free = slot->super->dirty = slot->super->aged = 0;
  return true;
}
