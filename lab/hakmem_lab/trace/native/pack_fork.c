// What a forked child begins with: the blocks that lived in its parent at the fork. The parent's word may be put in
// order before or after the child appears.
#include <stdlib.h>
#include <string.h>

#include "pack_parts.h"

#define INHERITANCES_MOST 8 // that nobody has claimed

static uint64_t order_of(const pack_block_t *block) {
  return (uint64_t)block->order_high << 20 | block->order_low;
}

static int by_order(const void *left, const void *right) {
  uint64_t a = order_of(left);
  uint64_t b = order_of(right);
  return (a > b) - (a < b);
}

static void forget(pack_inheritance_t **at) {
  pack_inheritance_t *gone = *at;
  *at = gone->next;
  free(gone);
}

int pack_fork(pack_process_t *process, uint64_t fork) {
  const pack_table_t *table = &process->table;
  pack_inheritance_t *kept = malloc(sizeof *kept + table->count * sizeof kept->blocks[0]);
  if (!kept) {
    return -1;
  }
  *kept = (pack_inheritance_t){.next = process->pack->inheritances, .process = process->number, .fork = fork};
  for (size_t i = 0; i <= table->mask; i++) {
    if (table->blocks[i].address != 0) {
      kept->blocks[kept->count++] = table->blocks[i];
    }
  }
  qsort(kept->blocks, kept->count, sizeof kept->blocks[0], by_order);
  process->pack->inheritances = kept;
  size_t count = 1;
  for (pack_inheritance_t **at = &kept->next; *at;) {
    if (count++ >= INHERITANCES_MOST) {
      forget(at);
    } else {
      at = &(*at)->next;
    }
  }
  return 0;
}

int pack_inherit(pack_process_t *process) {
  for (pack_inheritance_t **at = &process->pack->inheritances; *at; at = &(*at)->next) {
    pack_inheritance_t *found = *at;
    if (found->process == (uint32_t)process->parent && found->fork == process->fork) {
      process->parent = -1;
      int status = 0;
      for (size_t i = 0; i < found->count && status == 0; i++) {
        status = pack_inherited(process, &found->blocks[i]);
      }
      forget(at);
      return status;
    }
  }
  return 0;
}

void pack_inheritances_close(pack_t *pack) {
  while (pack->inheritances) {
    forget(&pack->inheritances);
  }
}
