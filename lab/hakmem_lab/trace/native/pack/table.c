// Live blocks by address: open addressing, linear probing, at most two thirds full. Removal closes the gap, so that
// there are no tombstones.
#include <errno.h>
#include <sys/mman.h>

#include "parts.h"

#define FIRST_BITS 12
#define HUGE_BYTES (4u << 20) // smallest table that asks for huge pages

static pack_block_t *map(unsigned bits) {
  size_t bytes = sizeof(pack_block_t) << bits;
  void *blocks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (blocks == MAP_FAILED) {
    return NULL;
  }
  if (bytes >= HUGE_BYTES) {
    madvise(blocks, bytes, MADV_HUGEPAGE);
  }
  return blocks;
}

static int open_bits(pack_table_t *table, unsigned bits) {
  *table = (pack_table_t){.blocks = map(bits), .mask = ((size_t)1 << bits) - 1, .shift = 64 - bits};
  return table->blocks ? 0 : -1;
}

int pack_table_open(pack_table_t *table) {
  return open_bits(table, FIRST_BITS);
}

void pack_table_close(pack_table_t *table) {
  if (table->blocks) {
    munmap(table->blocks, (table->mask + 1) * sizeof(pack_block_t));
  }
  *table = (pack_table_t){0};
}

int pack_table_grow(pack_table_t *table) {
  pack_table_t larger;
  if (open_bits(&larger, 64 - table->shift + 1) != 0) {
    errno = ENOMEM;
    return -1;
  }
  for (size_t i = 0; i <= table->mask; i++) {
    if (table->blocks[i].address != 0) {
      *pack_table_find(&larger, table->blocks[i].address) = table->blocks[i];
    }
  }
  larger.count = table->count;
  pack_table_close(table);
  *table = larger;
  return 0;
}

void pack_table_remove(pack_table_t *table, pack_block_t *block) {
  size_t gap = (size_t)(block - table->blocks);
  for (size_t at = (gap + 1) & table->mask; table->blocks[at].address != 0; at = (at + 1) & table->mask) {
    size_t home = pack_table_home(table, table->blocks[at].address);
    if (((at - home) & table->mask) >= ((at - gap) & table->mask)) {
      table->blocks[gap] = table->blocks[at];
      gap = at;
    }
  }
  table->blocks[gap].address = 0;
  table->count--;
}
