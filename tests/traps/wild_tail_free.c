/* For every size of block: free of the place behind the last block of a run, where one more block would begin, is
 * refused at once. */
#include "wild.h"

#include <string.h>

enum { TAILS_PER_SIZE = 3 };

static void free_at(void *address) {
  hak_free(hide_pointer(address));
}

static unsigned try_tail(size_t bytes, const WildTail *tail) {
  uintptr_t wild[] = {tail->end, tail->end + 16, tail->next - 16};
  for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
    if (wild[i] >= tail->next) {
      continue;
    }
    TrapEnd end = trap_in_child(free_at, (void *)wild[i]);
    if (!trap_is_misuse(&end) || !strstr(end.text, "free(): ")) {
      fprintf(stderr, "blocks of %zu bytes: free of a tail at +%zu of %zu bytes: status 0x%x, text '%s'\n", bytes,
              (size_t)(wild[i] - tail->end), (size_t)(tail->next - tail->end), (unsigned)end.status, end.text);
      return 1;
    }
  }
  return 0;
}

int main(void) {
  static WildBlocks blocks;
  unsigned faults = 0, tails = 0;
  trap_watchdog(60);
  for (size_t bytes = 16; bytes <= WILD_SMALL_MAX; bytes = blocks.bytes + 1) {
    wild_take(&blocks, bytes);
    size_t from = 0;
    WildTail tail;
    for (unsigned n = 0; n < TAILS_PER_SIZE && wild_next_tail(&blocks, &from, &tail); n++) {
      faults += try_tail(blocks.bytes, &tail);
      tails++;
    }
    wild_give(&blocks);
  }
  printf("%u tails, %u accepted\n", tails, faults);
  CHECK(faults == 0);
  HAK(hak_check)();
  return 0;
}
