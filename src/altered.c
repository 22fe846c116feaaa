#include "altered.h"

#include "hook.h"
#include "large.h"
#include "os.h"
#include "pagemap.h"

/* Of the blocks in the range. What begins before a chunk is huge. */
static uint64_t classes_of(uintptr_t at, uintptr_t end) {
  uint64_t classes = hak_class_bit(HAK_CLASS_HUGE);
  at &= ~(uintptr_t)(HAK_SLICE_BYTES - 1);
  while (hak_class_at((void *)at) == HAK_CLASS_NONE && at % HAK_CHUNK_BYTES != 0) {
    at -= HAK_SLICE_BYTES;
  }
  for (const hak_chunk_t *chunk; at < end && (chunk = hak_chunk_at((void *)at)); at += HAK_SLICE_BYTES) {
    if (chunk->state == HAK_CHUNK_HUGE) {
      break; /* the rest is the same block's */
    }
    uint32_t cls = hak_class_at((void *)at);
    classes |= cls == HAK_CLASS_SAMPLED ? ~0ULL : hak_class_bit(cls); /* of any class */
  }
  return classes;
}

void hak_altered_note(const void *at, size_t bytes) {
  const hak_chunk_t *chunk = hak_chunk_at(at);
  if (chunk && chunk->state != HAK_CHUNK_GONE) {
    hak_heap_divert(classes_of((uintptr_t)at, (uintptr_t)at + bytes));
  }
}

bool hak_altered_restore(void *block, uint32_t cls, const char *function) {
  size_t usable = cls == HAK_CLASS_SAMPLED ? hak_hook_usable(block, function) : hak_large_usable(block, cls);
  uintptr_t page = hak_os_page_bytes(), first = hak_round_up((uintptr_t)block, page);
  uintptr_t end = ((uintptr_t)block + usable) & ~(page - 1);
  return first >= end || hak_os_make_ordinary((void *)first, end - first);
}
