#include "wild.h"

enum { TAKE_BYTES = 1 << 20, TAKE_BLOCKS_MIN = 80 };

static int compare(const void *a, const void *b) {
  uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
  return x < y ? -1 : x > y;
}

void wild_take(WildBlocks *blocks, size_t bytes) {
  void *probe = hak_malloc(bytes);
  CHECK(probe != NULL);
  blocks->bytes = hak_malloc_usable_size(probe);
  hak_free(probe);
  blocks->count = TAKE_BYTES / blocks->bytes;
  blocks->count = blocks->count > TAKE_BLOCKS_MIN ? blocks->count : TAKE_BLOCKS_MIN;
  blocks->count = blocks->count < WILD_BLOCKS_MAX ? blocks->count : WILD_BLOCKS_MAX;
  for (size_t i = 0; i < blocks->count; i++) {
    blocks->block[i] = (uintptr_t)hak_malloc(blocks->bytes);
    CHECK(blocks->block[i] != 0);
  }
  qsort(blocks->block, blocks->count, sizeof *blocks->block, compare);
}

void wild_give(WildBlocks *blocks) {
  for (size_t i = 0; i < blocks->count; i++) {
    hak_free((void *)blocks->block[i]);
  }
}

bool wild_next_tail(const WildBlocks *blocks, size_t *from, WildTail *tail) {
  size_t i = *from;
  tail->begin = blocks->block[i];
  for (; i + 1 < blocks->count; i++) {
    uintptr_t end = blocks->block[i] + blocks->bytes, next = blocks->block[i + 1];
    if (next == end) {
      continue;
    }
    if (next - end < blocks->bytes) {
      *from = i + 1;
      tail->end = end;
      tail->next = next;
      return true;
    }
    tail->begin = next; /* blocks are missing here: they may be free */
  }
  return false;
}
