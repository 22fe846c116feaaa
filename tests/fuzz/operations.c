#include "operations.h"

#include <errno.h>

#include "check.h"
#include "names.h"
#include "pattern.h"

enum { OPERATION_BYTES = 4, SLOTS = 64 };
#define LIVE_BYTES_MAX ((size_t)256 << 20)

typedef struct {
  unsigned char *block;
  size_t bytes;
  size_t alignment;
} Slot;

static Slot slots[SLOTS];
static size_t live_bytes;

/* The two upper bits choose the unit: byte, 16 bytes, 256 bytes, 4 KiB. The code 0xffff is a size that no allocator can
 * serve. */
static size_t decode_bytes(unsigned code) {
  static const unsigned shifts[] = {0, 4, 8, 12};
  if (code == 0xffff) {
    return PTRDIFF_MAX;
  }
  return (size_t)(code & 0x3fff) << shifts[code >> 14];
}

static size_t tag_of(const Slot *slot) {
  return (size_t)(slot - slots) + 1;
}

static void release(Slot *slot) {
  if (slot->block == NULL) {
    return;
  }
  CHECK(pattern_holds(slot->block, slot->bytes, slot->bytes, tag_of(slot)));
  live_bytes -= slot->bytes;
  slot->block = NULL;
}

static void adopt(Slot *slot, void *block, size_t bytes, size_t alignment) {
  if (block == NULL) {
    CHECK(errno == ENOMEM);
    CHECK(bytes > LIVE_BYTES_MAX);
    return;
  }
  CHECK(bytes <= LIVE_BYTES_MAX);
  CHECK((uintptr_t)block % (alignment > 16 ? alignment : 16) == 0);
  CHECK(hak_malloc_usable_size(block) >= bytes);
  *slot = (Slot){.block = block, .bytes = bytes, .alignment = alignment};
  live_bytes += bytes;
  pattern_fill(block, bytes, tag_of(slot));
}

static void drop(Slot *slot, unsigned how) {
  unsigned char *block = slot->block;
  release(slot);
  if (how == 1 && block != NULL && slot->alignment == 0) {
    hak_free_sized(block, slot->bytes);
  } else if (how == 2 && block != NULL && slot->alignment > 0) {
    hak_free_aligned_sized(block, slot->alignment, slot->bytes);
  } else {
    hak_free(block);
  }
}

static void resize(Slot *slot, size_t bytes) {
  Slot old = *slot;
  if (old.block == NULL) {
    adopt(slot, hak_realloc(NULL, bytes), bytes, 0);
    return;
  }
  unsigned char *block = hak_realloc(old.block, bytes);
  if (block == NULL && bytes > 0) {
    CHECK(errno == ENOMEM && bytes > LIVE_BYTES_MAX);
    CHECK(pattern_holds(old.block, old.bytes, old.bytes, tag_of(slot)));
    return;
  }
  live_bytes -= old.bytes;
  slot->block = NULL;
  if (bytes == 0) {
    CHECK(block == NULL);
    return;
  }
  CHECK(pattern_holds(block, bytes < old.bytes ? bytes : old.bytes, old.bytes, tag_of(slot)));
  adopt(slot, block, bytes, 0);
}

static void allocate_aligned(Slot *slot, unsigned how, size_t bytes) {
  size_t alignment = (size_t)1 << (how % 22);
  if (how % 3 == 0) {
    adopt(slot, hak_aligned_alloc(alignment, bytes), bytes, alignment);
  } else if (how % 3 == 1) {
    adopt(slot, hak_memalign(alignment, bytes), bytes, alignment);
  } else {
    void *block = NULL;
    alignment = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    errno = hak_posix_memalign(&block, alignment, bytes);
    adopt(slot, block, bytes, alignment);
  }
}

static void allocate(Slot *slot, unsigned what, size_t bytes) {
  drop(slot, 0);
  if (what < 4) {
    adopt(slot, hak_malloc(bytes), bytes, 0);
  } else if (what == 4) {
    void *block = hak_calloc(bytes, 1);
    CHECK(block == NULL || all_zero(block, bytes));
    adopt(slot, block, bytes, 0);
  } else {
    adopt(slot, hak_reallocarray(NULL, bytes, 1), bytes, 0);
  }
}

static void whole_heap(unsigned which) {
  char text[512];
  switch (which % 4) {
  case 0:
    hak_thread_flush();
    break;
  case 1:
    (void)hak_trim(which * 4096);
    break;
  case 2:
    CHECK(hak_stats_json(text, sizeof text) > 0);
    break;
  default:
    hak_check();
  }
}

static void run_one(const uint8_t *operation) {
  unsigned what = operation[0] % 16, how = operation[0] / 16;
  Slot *slot = &slots[operation[1] % SLOTS];
  size_t bytes = decode_bytes(operation[2] | (unsigned)operation[3] << 8);
  if (bytes < PTRDIFF_MAX && live_bytes + bytes > LIVE_BYTES_MAX) {
    bytes %= 4096;
  }
  errno = 0;
  if (what < 6) {
    allocate(slot, what, bytes);
  } else if (what < 10) {
    drop(slot, how % 3);
  } else if (what < 13) {
    resize(slot, bytes);
  } else if (what < 15) {
    drop(slot, 0);
    allocate_aligned(slot, how + operation[1] % 2 * 16, bytes);
  } else {
    whole_heap(how);
  }
}

void run_operations(const uint8_t *program, size_t length) {
  for (size_t at = 0; at + OPERATION_BYTES <= length; at += OPERATION_BYTES) {
    run_one(program + at);
  }
  for (size_t i = 0; i < SLOTS; i++) {
    drop(&slots[i], 0);
  }
  CHECK(live_bytes == 0);
  hak_check();
}
