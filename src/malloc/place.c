/* What the system layer needs of the heap: see hook.h. Most of this file writes the place of an address for the message
 * of a misuse: block, slab, class and offset. */
#include "regions/regions.h"
#include "threads/threads.h"

#include <sys/mman.h>

static void write_offset(hak_text_t *text, size_t offset) {
  if (offset > 0) {
    hak_text_put(text, ", at its byte %zu", offset);
  }
}

/* In a slice of the heap. */
static void write_slice(hak_text_t *text, const void *address, uint32_t cls) {
  size_t slice = hak_pagemap_slice(address) % HAK_CHUNK_SLICES, offset = (uintptr_t)address % HAK_SLICE_BYTES;
  if (cls != HAK_CLASS_NONE && cls < HAK_RUN_FIRST) {
    size_t bytes = hak_class_sizes[cls], in_slab = hak_slab_offset(address);
    hak_text_put(text, "block %zu of slab %zu, %zu bytes", in_slab / bytes, slice / HAK_SLAB_SLICES, bytes);
    offset = in_slab % bytes;
  } else if (hak_class_is_run(cls) || (cls == HAK_CLASS_HUGE && offset == 0)) {
    hak_text_put(text, "a block of %zu bytes", hak_block_usable(address, cls));
  } else {
    hak_text_put(text, "slice %zu", slice);
  }
  write_offset(text, offset);
}

static void write_place(hak_text_t *text, const void *address) {
  size_t offset = 0, mapped = hak_hook_hardened.place(address, &offset);
  if (mapped > 0) {
    hak_text_put(text, "a block of %zu bytes", mapped);
    write_offset(text, offset);
  } else if (hak_pagemap_chunk(address)) {
    write_slice(text, address, hak_pagemap_class(address));
  } else {
    hak_text_put(text, "outside the heap");
  }
  if (hak_option(HAK_OPTION_VERBOSE)) {
    hak_text_put(text, ": 0x%zx", (uintptr_t)address);
  }
}

const hak_hook_heap_t hak_hook_heap = {.step_aside = hak_scope_step_aside,
                                       .step_back = hak_scope_step_back,
                                       .write_place = write_place,
                                       .thread_ends = hak_scope_thread_ends,
                                       .leave = hak_heap_leave,
                                       .advise = madvise};
