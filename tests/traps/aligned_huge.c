/* A block at a multiple of 512 GiB: the allocator's later work is in proportion to the memory in use, not to the
 * address range in between. The request itself may be refused. */
#include <string.h>
#include <unistd.h>

#include "trap.h"

enum { GROWTH_MAX_KIB = 1024, ROUNDS = 6, BLOCKS = 40 };

static void allocate_and_purge(void) {
  static char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(100 << 10);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], 1, 100 << 10);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(blocks[i]);
  }
  usleep(3000); /* a decay time ends */
  for (size_t i = 0; i < BLOCKS; i++) {
    hak_free(hide_pointer(hak_malloc(50 << 10)));
  }
  HAK(hak_trim)(0);
}

int main(void) {
  trap_watchdog(60);
  CHECK(HAK(hak_option_set)("DECAY_MS", "1") == 0);
  allocate_and_purge();
  allocate_and_purge();
  size_t before = trap_rss_kib();
  for (int shift = 33; shift <= 39; shift++) {
    char *block = hak_aligned_alloc((size_t)1 << shift, 1);
    if (block) {
      CHECK(((uintptr_t)block & (((uintptr_t)1 << shift) - 1)) == 0);
      *block = 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
      allocate_and_purge();
    }
    size_t now = trap_rss_kib();
    printf("2^%d: %s, %zu KiB resident, %zu before\n", shift, block ? "had" : "refused", now, before);
    CHECK(now <= before + GROWTH_MAX_KIB);
    hak_free(block);
  }
  HAK(hak_check)();
  return 0;
}
