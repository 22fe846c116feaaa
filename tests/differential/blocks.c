#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "machine.h"
#include "names.h"

enum { PAGE_WORDS = 4096 / 8, USABLE_ASKED_ONE_IN = 64 };

static uint64_t word_of(uint32_t seed, size_t index) {
  return (seed + 1) * 0x9E3779B97F4A7C15u ^ index * 0xD6E8FEB86659FD93u;
}

/* Number of words of a block that carry its pattern. The last byte is checked by itself. */
static size_t words_of(size_t bytes) {
  return bytes == 0 ? 0 : (bytes - 1) / 8;
}

static size_t stride_of(int touch) {
  return touch == WHOLE ? 1 : touch == PAGES ? PAGE_WORDS : SIZE_MAX / 2;
}

static size_t first_word_from(size_t word, size_t stride) {
  return (word + stride - 1) / stride * stride;
}

static void write_words(const struct slot *slot, size_t from_byte, size_t bytes) {
  if (slot->touch == NONE || bytes == 0) {
    return;
  }
  uint64_t *words = (uint64_t *)(void *)slot->block;
  size_t stride = stride_of(slot->touch);
  for (size_t i = first_word_from(words_of(from_byte), stride); i < words_of(bytes); i += stride) {
    words[i] = word_of(slot->seed, i);
  }
  if (slot->touch != START) {
    slot->block[bytes - 1] = (unsigned char)slot->seed;
  }
}

static void check_words(const struct slot *slot, size_t bytes, bool zero, bool has_end) {
  if (slot->touch == NONE || bytes == 0) {
    return;
  }
  const uint64_t *words = (const uint64_t *)(const void *)slot->block;
  size_t stride = stride_of(slot->touch);
  for (size_t i = 0; i < words_of(bytes); i += stride) {
    if (words[i] != (zero ? 0 : word_of(slot->seed, i))) {
      fail(zero ? "calloc: not zero" : "contents are not what was written");
    }
  }
  if (has_end && slot->touch != START && slot->block[bytes - 1] != (zero ? 0 : (unsigned char)slot->seed)) {
    fail(zero ? "calloc: last byte not zero" : "last byte is not what was written");
  }
}

static void *request(int64_t how, size_t bytes) {
  size_t alignment = (size_t)1 << (how >> 8);
  void *block = NULL;
  switch (how & 255) {
  case CALLOC:
    return hak_calloc(1, bytes);
  case MEMALIGN:
    return hak_posix_memalign(&block, alignment, bytes) == 0 ? block : NULL;
  case ALIGNED:
    return hak_aligned_alloc(alignment, bytes);
  case VALLOC:
    return hak_valloc(bytes);
  case REGION:
    return region_take(bytes);
  default:
    return hak_malloc(bytes);
  }
}

static void check_errno(const void *block, int64_t how) {
  if (block != NULL && errno != EXDEV) {
    fail("a request that succeeded changed errno");
  }
  if (block == NULL && errno != ((how & 255) == MEMALIGN ? EXDEV : ENOMEM)) {
    fail("a request that failed set another errno");
  }
}

static void check_place(const void *block, int64_t how, size_t bytes) {
  size_t alignment = bytes >= 16 ? 16 : 8;
  if ((how & 255) == MEMALIGN || (how & 255) == ALIGNED) {
    alignment = (size_t)1 << (how >> 8);
  } else if ((how & 255) == VALLOC) {
    alignment = 4096;
  }
  if ((uintptr_t)block % alignment != 0) {
    fail("block is not aligned");
  }
}

void slot_fill(struct context *context, struct slot *slot, int64_t how, size_t bytes, int64_t touch) {
  slot_empty(context, slot);
  errno = EXDEV;
  uint64_t start = measure_before(bytes);
  unsigned char *block = request(how, bytes);
  measure_after(context->op, start);
  if (is_ours()) {
    check_errno(block, how);
  }
  if (block == NULL) {
    if (bytes != 0) {
      measure_refusal();
    }
    return;
  }
  check_place(block, how, bytes);
  uint64_t chance = next_chance(context);
  if (chance % USABLE_ASKED_ONE_IN == 0 && hak_malloc_usable_size(block) < bytes) {
    fail("malloc_usable_size is less than was asked for");
  }
  slot->block = block;
  slot->bytes = bytes;
  slot->seed = (uint32_t)(chance >> 32);
  slot->touch = (uint8_t)touch;
  if ((how & 255) == CALLOC) {
    check_words(slot, bytes, true, true);
  }
  write_words(slot, 0, bytes);
  measure_live((int64_t)bytes);
}

void slot_check(const struct slot *slot) {
  if (slot->block != NULL) {
    check_words(slot, slot->bytes, false, true);
  }
}

void slot_empty(struct context *context, struct slot *slot) {
  if (slot->block == NULL) {
    return;
  }
  slot_check(slot);
  errno = EXDEV;
  uint64_t start = measure_before(slot->bytes);
  hak_free(slot->block);
  measure_after(context->op, start);
  if (errno != EXDEV) {
    fail("free changed errno");
  }
  measure_live(-(int64_t)slot->bytes);
  slot->block = NULL;
}

/* Resize to `target` bytes, in steps of `step` bytes or, if that is 0, of `percent` percent. The contents are checked
 * once, at the end: a check at every step would cost more than the calls. */
void slot_resize(struct context *context, struct slot *slot, size_t target, int64_t step, int64_t percent) {
  while (slot->block != NULL && slot->bytes != target) {
    size_t old = slot->bytes;
    size_t by = step > 0 ? (size_t)step : old * (size_t)percent / 100 + 16;
    size_t bytes = old < target ? (target - old > by ? old + by : target) : (old - target > by ? old - by : target);
    uint64_t start = measure_before(bytes);
    unsigned char *block = hak_realloc(slot->block, bytes);
    measure_after(context->op, start);
    if (block == NULL) {
      if (bytes != 0) {
        measure_refusal();
      } else {
        measure_live(-(int64_t)old);
        slot->block = NULL;
      }
      return;
    }
    slot->block = block;
    slot->bytes = bytes;
    if (bytes > old && old > 0 && slot->touch > START && block[old - 1] != (unsigned char)slot->seed) {
      fail("realloc lost the last byte");
    }
    if (bytes < old) {
      check_words(slot, bytes, false, false);
    }
    write_words(slot, old < bytes ? old : bytes, bytes);
    measure_live((int64_t)bytes - (int64_t)old);
  }
}
