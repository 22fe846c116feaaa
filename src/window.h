/* Duty: the range of addresses that holds every block, its tables, and the mapping of its slots.
 * Data: hak_window; lock: the arena's for every function here. Layers below: types, meta, os.
 *
 * The window is not reserved. A slot is mapped where it belongs only if nothing is there, so that the size of
 * the process stays honest under a limit on address space; a slot that somebody else occupies is left alone. */
#ifndef HAK_WINDOW_H
#define HAK_WINDOW_H

#include "types.h"

/* Choose the window and make its tables. False: no memory for them; may be tried again. */
bool hak_window_create(void);

/* Make every slot of [first, first + count) mapped. False: one is occupied (*occupied) or there is no memory; nothing
 * more is mapped than before. */
bool hak_window_map(size_t first, size_t count, bool huge_pages, bool *occupied);

/* See to it that the mapped slot has descriptors. False: no memory. */
bool hak_window_describe(size_t slot);

/* Give a slot without taken units back to the system. False: nothing changed. */
bool hak_window_unmap(size_t slot);

HAK_INLINE size_t hak_window_slots(void) {
  return hak_window.units / HAK_SLOT_UNITS;
}
HAK_INLINE char *hak_window_address(size_t unit) {
  return (char *)(hak_window.base + (unit << HAK_UNIT_SHIFT)); /* NOLINT(performance-no-int-to-ptr) */
}

#endif
