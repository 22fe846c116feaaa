// The inheritance of a forked child: the blocks that were live in its parent at the fork. The parent's RAW_FORK may be
// ordered before or after the child connects.
#include <stdlib.h>
#include <string.h>

#include "parts.h"

// The newest unclaimed inheritances are kept. Most children become another program at once and never claim theirs, but
// a server's children may connect long after the last fork.
#define INHERITANCES_LEAST 8
#define INHERITANCES_MOST 1024
#define INHERITED_BYTES_MOST (256u << 20)

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
  size_t bytes = kept->count * sizeof kept->blocks[0];
  for (pack_inheritance_t **at = &kept->next; *at;) {
    bytes += (*at)->count * sizeof kept->blocks[0];
    bool too_much = bytes > INHERITED_BYTES_MOST && count >= INHERITANCES_LEAST;
    if (count++ >= INHERITANCES_MOST || too_much) {
      forget(at);
    } else {
      at = &(*at)->next;
    }
  }
  return 0;
}

static pack_inheritance_t **find(const pack_process_t *child) {
  pack_inheritance_t **at = &child->pack->inheritances;
  while (*at && ((*at)->process != (uint32_t)child->parent || (*at)->fork != child->fork)) {
    at = &(*at)->next;
  }
  return at;
}

bool pack_inheritance(const pack_process_t *child) {
  return *find(child) != NULL;
}

int pack_inherit(pack_process_t *child) {
  pack_inheritance_t **at = find(child);
  int status = 0;
  for (size_t i = 0; i < (*at)->count && status == 0; i++) {
    status = pack_inherited(child, &(*at)->blocks[i]);
  }
  forget(at);
  return status;
}

void pack_inheritances_close(pack_t *pack) {
  while (pack->inheritances) {
    forget(&pack->inheritances);
  }
}
