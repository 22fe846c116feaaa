#include "program.h"

#include "blocks/freed.h"

Holder holders[EXPLORE_THREADS];

static void use(Holder *holder, hak_free_block_t *block) {
  world_took(block);
  hak_mark_taken(block);
  block->tag = 0x5a5a5a5a; /* the program's data now */
  EXPECT(holder->count < HOLDER_BLOCKS);
  holder->blocks[holder->count++] = block;
}

void holder_acquire(Holder *holder, uint32_t cls) {
  holder->current = hak_slab_acquire(cls);
}

void holder_drop(Holder *holder) {
  hak_slab_t *slab = holder->current;
  if (slab) {
    holder->current = NULL;
    hak_slab_drop(slab);
  }
}

void holder_take(Holder *holder, uint32_t want) {
  if (!holder->current) {
    return;
  }
  hak_free_block_t *blocks[HOLDER_BLOCKS];
  uint32_t count = hak_slab_take(holder->current, blocks, want, false);
  EXPECT(count <= want);
  while (count-- > 0) { /* the last block first, as from a bin */
    if (!hak_is_marked_free(blocks[count])) {
      hak_freed_damaged("malloc", blocks[count]);
    }
    use(holder, blocks[count]);
  }
}

/* The newest block leaves the program. Returns its class as the page map does. */
static hak_free_block_t *let_go(Holder *holder, uint32_t *cls) {
  hak_free_block_t *block = holder->blocks[--holder->count];
  world_frees(block);
  *cls = world_class(block);
  return block;
}

void holder_give(Holder *holder, uint32_t count) {
  hak_free_block_t *blocks[HOLDER_BLOCKS];
  uint32_t cls = HAK_CLASS_NONE;
  for (uint32_t i = 0; i < count; i++) {
    blocks[i] = let_go(holder, &cls);
    hak_mark_free(blocks[i]);
  }
  hak_sweep_return(blocks, count, cls, "free");
}

bool holder_take_one(Holder *holder, uint32_t cls) {
  void *block = hak_freed_take_one(cls);
  if (block) {
    use(holder, block);
  }
  return block != NULL;
}

void holder_give_one(Holder *holder) {
  uint32_t cls;
  hak_free_block_t *block = let_go(holder, &cls);
  hak_sweep_return_one(block, cls, "free");
}

void holder_hand(Holder *from, Holder *to, uint32_t count) {
  for (; count > 0; count--) {
    to->blocks[to->count++] = from->blocks[--from->count];
  }
}

void everything_out(uint32_t cls, uint32_t first, uint32_t second, uint32_t third) {
  const uint32_t shares[] = {first, second, third};
  Holder *all = &holders[EXPLORE_THREADS - 1];
  world_begin();
  holder_acquire(all, cls);
  holder_take(all, HOLDER_BLOCKS);
  for (int i = 0; i < 3; i++) {
    holder_hand(all, &holders[i], shares[i]);
  }
  holders[0].current = all->current;
  all->current = NULL;
}
