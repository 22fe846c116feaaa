#include "window.h"

#include "meta.h"
#include "os.h"

enum {
  SLOTS_READY_STEP = 4096, /* slots whose table entries are made writable at a time: 128 KiB of the class map */
};

#define WINDOW_MAX ((size_t)1 << 40)
#define WINDOW_MIN ((size_t)1 << 32)

_Alignas(HAK_CACHE_LINE) hak_window_t hak_window; /* every free() reads its first fields */

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

bool hak_window_describe(size_t index) {
  hak_slot_t *slot = &hak_window.slots[index];
  return slot->super || (slot->super = hak_meta_alloc(sizeof(hak_super_t)));
}

static void set_mapped(size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++) {
    hak_slot_t *slot = &hak_window.slots[i];
    if (slot->state == HAK_SLOT_UNMAPPED) {
      slot->state = HAK_SLOT_MAPPED;
      slot->free = UINT32_MAX;
      slot->dirty = slot->aged = 0;
    }
  }
  if (hak_window.slots_used < first + count) {
    hak_window.slots_used = first + count;
  }
}

static char *slot_address(size_t index) {
  return hak_window_address(index * HAK_SLOT_UNITS);
}

/* One slot of the range is in somebody else's use: mark it, so that it is not tried again. */
static void mark_occupied(size_t first, size_t count) {
  while (count > 1) { /* the lower half can be mapped: it is in the other one */
    size_t half = count / 2;
    if (hak_os_map_at(slot_address(first), half << HAK_SLOT_SHIFT) == HAK_OS_MAPPED) {
      hak_os_unmap(slot_address(first), half << HAK_SLOT_SHIFT);
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  hak_window.slots[first].state = HAK_SLOT_FOREIGN;
  if (hak_window.slots_used <= first) {
    hak_window.slots_used = first + 1;
  }
}

/* The next run of unmapped slots in [first, end); *first becomes its begin. 0: there is none. */
static size_t next_unmapped(size_t *first, size_t end) {
  while (*first < end && hak_window.slots[*first].state != HAK_SLOT_UNMAPPED) {
    (*first)++;
  }
  size_t count = 0;
  while (*first + count < end && hak_window.slots[*first + count].state == HAK_SLOT_UNMAPPED) {
    count++;
  }
  return count;
}

static void unmap_again(size_t first, size_t end) {
  for (size_t count; (count = next_unmapped(&first, end)) > 0; first += count) {
    hak_os_unmap(slot_address(first), count << HAK_SLOT_SHIFT);
  }
}

bool hak_window_map(size_t first, size_t count, bool huge_pages, bool *occupied) {
  *occupied = false;
  if (!tables_ready(first + count)) {
    return false;
  }
  size_t at = first;
  for (size_t n; (n = next_unmapped(&at, first + count)) > 0; at += n) {
    hak_os_map_result_t result = hak_os_map_at(slot_address(at), n << HAK_SLOT_SHIFT);
    if (result != HAK_OS_MAPPED) {
      unmap_again(first, at);
      *occupied = result == HAK_OS_OCCUPIED;
      if (*occupied) {
        mark_occupied(at, n);
      }
      return false;
    }
    if (huge_pages) {
      hak_os_prefer_huge(slot_address(at), n << HAK_SLOT_SHIFT);
    }
  }
  set_mapped(first, count);
  return true;
}

bool hak_window_unmap(size_t index) {
  hak_slot_t *slot = &hak_window.slots[index];
  if (!hak_os_unmap(slot_address(index), HAK_SLOT_BYTES)) {
    return false;
  }
  slot->state = HAK_SLOT_UNMAPPED;
  slot->free = slot->dirty = slot->aged = 0;
  return true;
}
