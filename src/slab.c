#include "slab.h"

#include "arena.h"
#include "os.h"
#include "pagemap.h"

hak_slab_class_t hak_slab_classes[HAK_RUN_FIRST] = {[0 ... HAK_RUN_FIRST - 1] = {.lock = HAK_LOCK_INIT}};
_Atomic size_t hak_slabs_listed[HAK_SLABS_LISTS];
_Atomic uintptr_t hak_slab_key;
const hak_free_block_t hak_list_end;

void hak_slab_init(void) {
  uintptr_t none = 0;
  if (atomic_load_explicit(&hak_slab_key, memory_order_relaxed) == 0) { /* several threads may come first */
    uintptr_t key = (uintptr_t)hak_os_random() | (uintptr_t)1 << 63;    /* address ^ key is never an address */
    atomic_compare_exchange_strong_explicit(&hak_slab_key, &none, key, memory_order_relaxed, memory_order_relaxed);
  }
}

static void link_locked(hak_slab_t *slab) {
  hak_slab_class_t *class = &hak_slab_classes[slab->cls];
  hak_slab_t **first = &class->list[slab->list].first, **last = &class->list[slab->list].last;
  slab->next = NULL;
  slab->prev = *last;
  *(*last ? &(*last)->next : first) = slab;
  *last = slab;
  atomic_fetch_add_explicit(&hak_slabs_listed[slab->list], 1, memory_order_relaxed);
}

static void unlink_locked(hak_slab_t *slab) {
  hak_slab_class_t *class = &hak_slab_classes[slab->cls];
  *(slab->prev ? &slab->prev->next : &class->list[slab->list].first) = slab->next;
  *(slab->next ? &slab->next->prev : &class->list[slab->list].last) = slab->prev;
  slab->next = slab->prev = NULL;
  atomic_fetch_sub_explicit(&hak_slabs_listed[slab->list], 1, memory_order_relaxed);
}

/* At least `enough`, or all there are. */
static uint32_t bits_set(const hak_slab_t *slab, uint32_t enough) {
  uint32_t count = 0;
  for (uint32_t w = 0; w * 64 < slab->blocks && count < enough; w++) {
    count += hak_count_bits(atomic_load_explicit(&slab->bits[w], memory_order_relaxed));
  }
  return count;
}

/* It has something to give: put it into the list that is its own. Unlocks. True: that of sparse slabs, from elsewhere.
 */
static bool list_and_unlock(hak_slab_t *slab, hak_slab_class_t *class, uint32_t control) {
  bool listed = control & HAK_SLAB_LISTED;
  if (!listed && slab->list == HAK_SLABS_DENSE) {
    atomic_store_explicit(&slab->sparse_from, hak_slab_sparse_from(hak_slab_carved(slab)), memory_order_relaxed);
  }
  bool sparse = control >> HAK_SLAB_COUNT_SHIFT >= atomic_load_explicit(&slab->sparse_from, memory_order_relaxed);
  bool moves = !listed || (sparse && slab->list != HAK_SLABS_SPARSE);
  if (listed && moves) {
    unlink_locked(slab);
  }
  if (moves) {
    slab->list = sparse ? HAK_SLABS_SPARSE : slab->list;
    atomic_fetch_or_explicit(&slab->control, HAK_SLAB_LISTED, memory_order_relaxed);
    link_locked(slab);
  }
  hak_unlock(&class->lock);
  return sparse && moves;
}

/* The slab just got blocks back, or lost its CURRENT: put it where its state says. Unlocks. True: it became sparse. */
static bool settle_and_unlock(hak_slab_t *slab, hak_slab_class_t *class) {
  uint32_t control = atomic_load_explicit(&slab->control, memory_order_acquire);
  uint32_t count = control >> HAK_SLAB_COUNT_SHIFT, carved = hak_slab_carved(slab);
  /* Told by the bits: while a return is in flight, and after a fork in the middle of one, the count is not them. */
  if ((control & HAK_SLAB_CURRENT) || (carved == slab->blocks && bits_set(slab, 1) == 0)) {
    hak_unlock(&class->lock); /* detached: the next return lists it */
    return false;
  }
  if (count == carved && bits_set(slab, carved) == carved) {
    if (control & HAK_SLAB_LISTED) {
      unlink_locked(slab);
    }
    atomic_store_explicit(&slab->control, 0, memory_order_relaxed);
    char *base = slab->base;
    size_t slices = slab->slices;
    hak_set_class(base, slices, HAK_CLASS_NONE);
    /* under the class's lock, where a return that is on its way there must find the slab gone */
    atomic_store_explicit(&slab->cls, HAK_CLASS_NONE, memory_order_relaxed);
    hak_unlock(&class->lock);
    hak_arena_give(base, slices);
    return false;
  }
  return list_and_unlock(slab, class, control);
}

/* CURRENT: the caller's alone. */
static hak_slab_t *make_slab(uint32_t cls) {
  bool zeroed;
  /* One slice where memory is short; for sizes that divide it, for the bins' limits are those of whole slabs. Requests
   * of other sizes get a block of the next class that has one (slow.c). */
  bool tight = hak_arena_is_tight(), divides = HAK_SLICE_BYTES % hak_class_sizes[cls] == 0;
  size_t slices = tight && divides ? 1 : hak_slab_slices(cls);
  bool power_of_two = (hak_class_sizes[cls] & (hak_class_sizes[cls] - 1)) == 0;
  char *base = tight && !power_of_two ? NULL : hak_arena_take(slices, HAK_SLAB_SLICES, &zeroed);
  if (!base && divides && slices > 1) {
    slices = 1;
    base = hak_arena_take(slices, HAK_SLAB_SLICES, &zeroed);
  }
  if (!base) {
    return NULL;
  }
  hak_slab_t *slab = hak_slab_at(base);
  slab->block_bytes = hak_class_sizes[cls];
  slab->inverse = hak_class_inverses[cls];
  slab->blocks = (uint32_t)(slices << HAK_SLICE_SHIFT) / hak_class_sizes[cls];
  slab->slices = (uint8_t)slices;
  slab->base = base;
  slab->word = 0;
  slab->discarded = false;
  slab->zeroed = zeroed;
  slab->list = HAK_SLABS_DENSE;
  atomic_store_explicit(&slab->carved, 0, memory_order_relaxed);
  for (uint32_t w = 0; w < HAK_BITS_WORDS && w * 64 < slab->blocks; w++) {
    atomic_store_explicit(&slab->bits[w], 0, memory_order_relaxed);
  }
  atomic_store_explicit(&slab->control, HAK_SLAB_CURRENT, memory_order_relaxed);
  atomic_store_explicit(&slab->cls, (uint8_t)cls, memory_order_release);         /* pairs with return_bits */
  hak_set_class(base, slices < HAK_SLAB_SLICES ? slices : HAK_SLAB_SLICES, cls); /* no block begins behind these */
  return slab;
}

void hak_slab_hold_locked(hak_slab_t *slab, uint8_t list) {
  unlink_locked(slab);
  slab->list = list;
  atomic_fetch_xor_explicit(&slab->control, HAK_SLAB_LISTED | HAK_SLAB_CURRENT, memory_order_acquire);
}

hak_slab_t *hak_slab_acquire(uint32_t cls) {
  hak_slab_class_t *class = &hak_slab_classes[cls];
  hak_lock(&class->lock);
  hak_slab_t *slab = NULL;
  for (int list = 0; list < HAK_SLABS_LISTS && !(slab = class->list[list].first); list++) {
  }
  if (slab) {
    hak_slab_hold_locked(slab, HAK_SLABS_DENSE);
  }
  hak_unlock(&class->lock);
  return slab ? slab : make_slab(cls);
}

void hak_slab_drop(hak_slab_t *slab) {
  hak_slab_class_t *class = &hak_slab_classes[slab->cls];
  hak_lock(&class->lock);
  atomic_fetch_and_explicit(&slab->control, ~(uint32_t)HAK_SLAB_CURRENT, memory_order_acq_rel);
  settle_and_unlock(slab, class);
}

/* Blocks whose bits are `mask` of word `w`, put in front of `chain`; lowest address first. */
static void chain_bits(hak_slab_t *slab, uint32_t w, uint64_t mask, uintptr_t key, hak_chain_t *chain) {
  char *word_base = slab->base + (size_t)w * 64 * slab->block_bytes;
  while (mask) {
    unsigned bit = 63 - (unsigned)__builtin_clzll(mask);
    hak_free_block_t *block = (hak_free_block_t *)(void *)(word_base + (size_t)bit * slab->block_bytes);
    if (HAK_UNLIKELY(!hak_slab_tagged(block)) && !(slab->discarded && block->tag == 0)) {
      hak_misuse("malloc", hak_is_marked_taken(block) ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_CORRUPTED, block);
    }
    hak_link(block, chain->first, key);
    chain->first = block;
    chain->count++;
    mask &= ~(1ULL << bit);
  }
}

/* All but the lowest `keep` bits. */
static uint64_t above_lowest(uint64_t mask, uint32_t keep) {
  while (keep-- > 0 && mask) {
    mask &= mask - 1;
  }
  return mask;
}

void hak_slab_put_back(hak_slab_t *slab, uint32_t w, uint64_t bits, const char *function) {
  uint64_t before = atomic_fetch_or_explicit(&slab->bits[w], bits, memory_order_release); /* pairs with take_bits */
  uint64_t twice = before & bits;
  if (HAK_UNLIKELY(twice)) {
    uint32_t index = w * 64 + (uint32_t)__builtin_ctzll(twice);
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, slab->base + (size_t)index * slab->block_bytes);
  }
}

static void take_bits(hak_slab_t *slab, uint32_t want, uintptr_t key, hak_chain_t *chain) {
  uint32_t words = (slab->blocks + 63) / 64, taken_before = chain->count;
  for (uint32_t i = 0; i < words && chain->count < want; i++) {
    uint32_t w = slab->word + i < words ? slab->word + i : slab->word + i - words;
    if (atomic_load_explicit(&slab->bits[w], memory_order_relaxed) == 0) {
      continue;
    }
    /* acquire: pairs with hak_slab_put_back */
    uint64_t mask = atomic_exchange_explicit(&slab->bits[w], 0, memory_order_acquire);
    uint32_t room = want - chain->count;
    if (hak_count_bits(mask) > room) {
      uint64_t rest = above_lowest(mask, room);
      hak_slab_put_back(slab, w, rest, "malloc");
      mask ^= rest;
    }
    chain_bits(slab, w, mask, key, chain);
    if (chain->count >= want) {
      slab->word = (uint8_t)w;
    }
  }
  uint32_t taken = chain->count - taken_before;
  if (taken) {
    atomic_fetch_sub_explicit(&slab->control, taken << HAK_SLAB_COUNT_SHIFT, memory_order_relaxed);
  }
}

/* New blocks; their memory is touched here for the first time, and where it is new nobody may have written there. */
static void carve(hak_slab_t *slab, uint32_t want, uintptr_t key, hak_chain_t *chain) {
  uint32_t first = hak_slab_carved(slab), left = slab->blocks - first;
  uint32_t n = want < left ? want : left;
  atomic_store_explicit(&slab->carved, first + n, memory_order_relaxed);
  atomic_signal_fence(memory_order_release); /* a fork between the two may lose the blocks, not give them twice */
  char *at = slab->base + (size_t)(first + n) * slab->block_bytes;
  for (uint32_t i = 0; i < n; i++) {
    at -= slab->block_bytes;
    hak_free_block_t *block = (hak_free_block_t *)(void *)at;
    block->link = chain->first; /* first, so that the page fault is one for writing */
    if (HAK_UNLIKELY(slab->zeroed && block->tag != 0)) {
      hak_misuse("malloc", HAK_MISUSE_CORRUPTED, block);
    }
    block->tag = (uintptr_t)chain->first ^ key;
    chain->first = block;
  }
  chain->count += n;
}

hak_chain_t hak_slab_take(hak_slab_t *slab, uint32_t want, uintptr_t key) {
  hak_chain_t chain = {HAK_LIST_END, 0};
  take_bits(slab, want, key, &chain);
  if (chain.count == 0) {
    carve(slab, want, key, &chain);
  }
  return chain;
}

/* Set the bits of blocks that come back to one word of one slab, and see to the slab's new state. */
static void return_bits(hak_slab_t *slab, uint32_t w, uint64_t mask, const char *function) {
  uint32_t cls = atomic_load_explicit(&slab->cls, memory_order_relaxed);
  hak_slab_put_back(slab, w, mask, function);
  uint32_t n = hak_count_bits(mask);
  uint32_t control = atomic_fetch_add_explicit(&slab->control, n << HAK_SLAB_COUNT_SHIFT, memory_order_acq_rel);
  if (control & HAK_SLAB_CURRENT) {
    return;
  }
  /* From here on another thread may release the slab: its descriptor stays, and the lock tells. */
  uint32_t sparse_from = atomic_load_explicit(&slab->sparse_from, memory_order_relaxed);
  uint32_t count_before = control >> HAK_SLAB_COUNT_SHIFT, count = count_before + n;
  bool becomes_sparse = count_before < sparse_from && count >= sparse_from;
  if (!(control & HAK_SLAB_LISTED) || becomes_sparse || count == hak_slab_carved(slab)) {
    hak_slab_class_t *class = &hak_slab_classes[cls];
    hak_lock(&class->lock);
    if (atomic_load_explicit(&slab->cls, memory_order_acquire) != cls) { /* perhaps another: pairs with make_slab */
      hak_unlock(&class->lock);
    } else if (settle_and_unlock(slab, class)) {
      hak_slab_became_sparse();
    }
  }
}

/* Gathers the blocks of a chain by word of bits, so that neighbours cost one atomic operation together. */
enum { GATHER_ENTRIES = 32 };
typedef struct gather {
  struct {
    hak_slab_t *slab;
    uint64_t mask;
    uint32_t word;
  } entry[GATHER_ENTRIES];
  hak_slab_t *last; /* of the block before: neighbours in a list are often neighbours in memory */
  const char *function;
} gather_t;

static void gather_flush(gather_t *gather, size_t i) {
  if (gather->entry[i].mask) {
    return_bits(gather->entry[i].slab, gather->entry[i].word, gather->entry[i].mask, gather->function);
    gather->entry[i].mask = 0;
  }
}

/* The index of a block that comes back, tagged now. */
static uint32_t admit(const hak_slab_t *slab, hak_free_block_t *block, const char *function) {
  uint32_t index = hak_block_index(block, slab->inverse);
  if (HAK_UNLIKELY(index >= hak_slab_carved(slab))) {
    hak_misuse(function, HAK_MISUSE_INVALID, block);
  }
  hak_slab_tag(block);
  return index;
}

HAK_INLINE void gather_add(gather_t *gather, hak_free_block_t *block) {
  hak_slab_t *slab = gather->last;
  if (!slab || slab->base != (char *)block - hak_slab_offset(block)) {
    gather->last = slab = hak_slab_at(block);
  }
  uint32_t index = admit(slab, block, gather->function), word = index / 64;
  size_t i = (word ^ (uintptr_t)block >> HAK_SLAB_SHIFT) % GATHER_ENTRIES;
  if (gather->entry[i].slab != slab || gather->entry[i].word != word) {
    gather_flush(gather, i);
    gather->entry[i].slab = slab;
    gather->entry[i].word = word;
  }
  gather->entry[i].mask |= 1ULL << index % 64; /* not twice: its tag no longer fits the chain */
}

hak_free_block_t *hak_slab_return(hak_free_block_t *chain, uint32_t most, uintptr_t key, const char *function) {
  gather_t gather = {.function = function};
  for (hak_free_block_t *block; most > 0 && (block = hak_slab_unchain(&chain, key, function)); most--) {
    gather_add(&gather, block);
  }
  for (size_t i = 0; i < GATHER_ENTRIES; i++) {
    gather_flush(&gather, i);
  }
  return chain;
}

_Noreturn HAK_COLD void hak_slab_damaged(const char *function, const hak_free_block_t *block) {
  bool met = block->tag == (uintptr_t)block; /* a moment ago, in a walk over the list */
  bool twice = met || hak_is_marked_taken(block) || hak_slab_tagged(block);
  hak_misuse(function, twice ? HAK_MISUSE_DOUBLE_FREE : HAK_MISUSE_CORRUPTED, block);
}

bool hak_slab_holds(const void *block) {
  hak_slab_t *slab = hak_slab_at(block);
  uint32_t index = hak_block_index(block, slab->inverse);
  return atomic_load_explicit(&slab->bits[index / 64], memory_order_relaxed) >> index % 64 & 1;
}

void hak_slab_return_one(void *block, const char *function) {
  hak_slab_t *slab = hak_slab_at(block);
  uint32_t index = admit(slab, block, function);
  return_bits(slab, index / 64, 1ULL << index % 64, function);
}

void *hak_slab_take_one(uint32_t cls) {
  hak_chain_t chain = {HAK_LIST_END, 0};
  while (chain.count == 0) {
    hak_slab_t *slab = hak_slab_acquire(cls);
    if (!slab) {
      return NULL;
    }
    chain = hak_slab_take(slab, 1, atomic_load_explicit(&hak_slab_key, memory_order_relaxed));
    hak_slab_drop(slab);
  }
  hak_mark_taken(chain.first);
  return chain.first;
}
