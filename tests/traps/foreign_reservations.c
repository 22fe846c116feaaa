/* Other code may reserve many addresses, even next to the heap's. As long as the system has memory, malloc succeeds. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trap.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { RESERVATIONS = 200, FILLERS = 256, NEIGHBOURS = 400, BLOCKS = 4000, BLOCK_BYTES = 50 << 10, HUGE_BLOCKS = 10 };
#define RESERVATION_BYTES ((size_t)8 << 30)
#define FILLER_BYTES ((size_t)64 << 20)
#define CHUNK_BYTES ((size_t)2 << 20)
#define HUGE_BYTES ((size_t)9 << 20)

static void *reserve(void *at, size_t bytes, int flags) {
  void *p = mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* Allocates 200 MiB in blocks of 50 KiB, 90 MiB in larger ones, and small ones, all live at once. */
static void allocate_much(void) {
  static char *blocks[BLOCKS], *huge[HUGE_BLOCKS], *small[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = hak_malloc(BLOCK_BYTES);
    small[i] = hak_malloc(1000);
    CHECK(blocks[i] != NULL);
    CHECK(small[i] != NULL);
    blocks[i][0] = blocks[i][BLOCK_BYTES - 1] = small[i][0] = (char)i;
  }
  for (size_t i = 0; i < HUGE_BLOCKS; i++) {
    huge[i] = hak_malloc(HUGE_BYTES);
    CHECK(huge[i] != NULL);
    huge[i][0] = huge[i][HUGE_BYTES - 1] = (char)i;
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK(blocks[i][0] == (char)i && blocks[i][BLOCK_BYTES - 1] == (char)i && small[i][0] == (char)i);
    hak_free(blocks[i]);
    hak_free(small[i]);
  }
  for (size_t i = 0; i < HUGE_BLOCKS; i++) {
    CHECK(huge[i][0] == (char)i && huge[i][HUGE_BYTES - 1] == (char)i);
    hak_free(huge[i]);
  }
}

/* Reserves every chunk of addresses around a block that is still free, as other code might. */
static void surround(void *block, void *taken[2 * NEIGHBOURS]) {
  char *chunk = (char *)((uintptr_t)block & ~(uintptr_t)(CHUNK_BYTES - 1));
  for (size_t i = 0; i < NEIGHBOURS; i++) {
    taken[2 * i] = reserve(chunk + (i + 1) * CHUNK_BYTES, CHUNK_BYTES / 2, MAP_FIXED_NOREPLACE);
    taken[2 * i + 1] = reserve(chunk - (i + 1) * CHUNK_BYTES, CHUNK_BYTES / 2, MAP_FIXED_NOREPLACE);
  }
}

static void release(void **mappings, size_t count, size_t bytes) {
  for (size_t i = 0; i < count; i++) {
    if (mappings[i]) {
      munmap(mappings[i], bytes);
    }
  }
}

int main(void) {
  static void *reservations[RESERVATIONS], *fillers[FILLERS], *neighbours[2 * NEIGHBOURS];
  trap_watchdog(60);
  void *first = hak_malloc(100);
  CHECK(first != NULL);
  for (size_t i = 0; i < RESERVATIONS; i++) {
    reservations[i] = reserve(NULL, RESERVATION_BYTES, 0);
    if (!reservations[i]) {
      trap_skip("addresses are limited");
    }
  }
  for (size_t i = 0; i < FILLERS; i++) { /* the gaps that the large ranges left beside the heap */
    fillers[i] = reserve(NULL, FILLER_BYTES, 0);
  }
  allocate_much();
  release(reservations, RESERVATIONS, RESERVATION_BYTES);
  release(fillers, FILLERS, FILLER_BYTES);
  allocate_much();
  surround(first, neighbours);
  allocate_much();
  release(neighbours, 2 * NEIGHBOURS, CHUNK_BYTES / 2);
  hak_free(first);
  HAK(hak_check)();
  return 0;
}
