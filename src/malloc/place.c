/* The place of an address: block, slab, class and offset. hak_misuse calls it. */
#include "system/place.h"

#include "blocks/large.h"
#include "blocks/slab.h"
#include "hardened/framed.h"
#include "hardened/mapped.h"
#include "pages/pagemap.h"
#include "system/options.h"

static void write_offset(hak_text_t *text, size_t offset) {
  if (offset > 0) {
    hak_text_put(text, ", at its byte %zu", offset);
  }
}

/* In a slice of the heap. */
static void write_slice(hak_text_t *text, const void *address, uint32_t cls) {
  size_t slice = hak_slice_of(address) % HAK_CHUNK_SLICES, offset = (uintptr_t)address % HAK_SLICE_BYTES;
  if (cls != HAK_CLASS_NONE && cls < HAK_RUN_FIRST) {
    size_t bytes = hak_class_sizes[cls], in_slab = hak_slab_offset(address);
    hak_text_put(text, "block %zu of slab %zu, %zu bytes", in_slab / bytes, slice / HAK_SLAB_SLICES, bytes);
    write_offset(text, in_slab % bytes);
  } else if (hak_class_is_run(cls) || (cls == HAK_CLASS_HUGE && offset == 0)) {
    hak_text_put(text, "a block of %zu bytes", hak_large_usable(address, cls));
    write_offset(text, offset);
  } else {
    hak_text_put(text, "slice %zu", slice);
    write_offset(text, offset);
  }
}

/* The bytes of a block with a frame or a mapping, and the offset in it; 0: no such block is around the address. */
static size_t find_large(const void *address, size_t *offset) {
  hak_framed_run_t run;
  bool framed = hak_framed_find(address, &run);
  *offset = framed ? (uintptr_t)address - (uintptr_t)run.block : 0;
  bool inside = framed && (uintptr_t)address >= (uintptr_t)run.block && (uintptr_t)address < (uintptr_t)run.end;
  return inside ? (size_t)(run.end - run.block) : hak_mapped_place(address, offset);
}

void hak_place_write(hak_text_t *text, const void *address) {
  size_t offset = 0, mapped = find_large(address, &offset);
  if (mapped > 0) {
    hak_text_put(text, "a block of %zu bytes", mapped);
    write_offset(text, offset);
  } else if (hak_chunk_at(address)) {
    write_slice(text, address, hak_class_at(address));
  } else {
    hak_text_put(text, "outside the heap");
  }
  if (hak_option(HAK_OPTION_VERBOSE)) {
    hak_text_put(text, ": 0x%zx", (uintptr_t)address);
  }
}
