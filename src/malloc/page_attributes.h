/* Duty: page attributes of blocks. A program may protect a block's pages, or exclude them from its forked children, and
 * then free the block. The heap makes these pages ordinary first. Once a class may have such blocks, every thread frees
 * that class on its slow path, which knows the changed pages.
 * Layers below: hook. */
#pragma once

#include "system/system.h"

/* The program is about to change the attributes of these pages. */
void hak_page_attributes_note(const void *at, size_t bytes, hak_os_attribute_t how);
/* The attributes that the program has given to pages so far: bits of hak_os_attribute_t. */
extern _Atomic uint32_t hak_page_attributes_ways;
HAK_INLINE bool hak_page_attributes_any(void) {
  return atomic_load_explicit(&hak_page_attributes_ways, memory_order_relaxed) != 0;
}
/* Make a block's pages ordinary before it is freed or resized. False: the pages cannot be restored. */
bool hak_page_attributes_restore(void *block, uint32_t cls, const char *function);
/* Make the whole pages of a range ordinary. */
bool hak_page_attributes_restore_range(char *from, const char *to);
