#include "program.h"

Holder holders[EXPLORE_THREADS];

static void use(Holder *holder, hak_free_block_t *block) {
  world_took(block);
  hak_mark_taken(block);
  block->tag = 0x5a5a5a5a; /* the program's data now */
  EXPECT(holder->count < HOLDER_BLOCKS);
  holder->blocks[holder->count++] = block;
}

static uintptr_t key_of(Holder *holder) {
  holder->key = (uintptr_t)1 << 63 | (uintptr_t)(holder - holders + 1) << 8;
  return holder->key;
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
  hak_chain_t chain = hak_slab_take(holder->current, want, key_of(holder));
  EXPECT(chain.count <= want);
  for (hak_free_block_t *block = chain.first, *next; block != HAK_LIST_END; block = next) {
    next = block->link;
    if (((uintptr_t)next ^ block->tag) != holder->key) {
      hak_slab_damaged("malloc", block);
    }
    use(holder, block);
    chain.count--;
  }
  EXPECT(chain.count == 0);
}

void holder_give(Holder *holder, uint32_t count) {
  hak_free_block_t *chain = HAK_LIST_END;
  for (; count > 0; count--) {
    hak_free_block_t *block = holder->blocks[--holder->count];
    world_frees(block);
    hak_link(block, chain, key_of(holder));
    chain = block;
  }
  hak_slab_return(chain, UINT32_MAX, key_of(holder), "free");
}

bool holder_take_one(Holder *holder, uint32_t cls) {
  void *block = hak_slab_take_one(cls);
  if (block) {
    use(holder, block);
  }
  return block != NULL;
}

void holder_give_one(Holder *holder) {
  void *block = holder->blocks[--holder->count];
  world_frees(block);
  hak_slab_return_one(block, "free");
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
