/* Addresses for blocks of no bytes, in a range without access. The slow paths of malloc and free call it. */
#include "zero_size.h"

#include "threads/threads.h"

enum {
  BLOCKS = 1 << 16,
  WORD_BITS = 10,
  WORDS = BLOCKS / 64,
  GROUPS = WORDS / 64,
};
#define BYTES ((size_t)BLOCKS << HAK_BLOCK_SHIFT)

static _Atomic(char *) range; /* NULL: not made yet */
static _Atomic uint64_t taken[WORDS] HAK_LARGE_DATA;
/* A bit for each word that is probably full. While a program has few such blocks, no thread writes to the words that
 * all threads read. */
static _Atomic uint64_t full[GROUPS] HAK_LARGE_DATA;
_Static_assert(WORDS == 1 << WORD_BITS, "a hash of so many bits names a word");

static char *the_range(void) {
  char *at = atomic_load_explicit(&range, memory_order_relaxed), *made = at ? NULL : hak_os_reserve(BYTES);
  if (made && !atomic_compare_exchange_strong(&range, &at, made)) {
    hak_os_unmap_unused(made, BYTES);
    made = NULL;
  }
  return made ? made : at;
}

static void mark_open(size_t word) {
  atomic_fetch_and(&full[word / 64], ~(1ULL << word % 64));
}

static void mark_full(size_t word) {
  atomic_fetch_or(&full[word / 64], 1ULL << word % 64);
  if (atomic_load(&taken[word]) != UINT64_MAX) { /* a block was freed before the word was marked */
    mark_open(word);
  }
}

static void *take_of_word(char *base, uint32_t word) {
  uint64_t bits = atomic_load_explicit(&taken[word], memory_order_relaxed);
  while (~bits != 0) {
    uint64_t bit = ~bits & (bits + 1);
    bits = atomic_fetch_or_explicit(&taken[word], bit, memory_order_acquire);
    if (!(bits & bit)) {
      if ((bits | bit) == UINT64_MAX) {
        mark_full(word);
      }
      size_t index = (size_t)word * 64 + (size_t)__builtin_ctzll(bit);
      return base + (index << HAK_BLOCK_SHIFT);
    }
  }
  return NULL;
}

void *hak_zero_size_take(void) {
  char *base = hak_option(HAK_OPTION_TRAP_EMPTY) ? the_range() : NULL;
  uint32_t first = (uint32_t)((uintptr_t)hak_heap >> HAK_BLOCK_SHIFT) * 0x9e3779b1U >> (32 - WORD_BITS);
  uint64_t below = (1ULL << first % 64) - 1; /* words before the start of the search: they come last */
  void *block = NULL;
  for (uint32_t i = 0; base && i <= GROUPS && !block; i++) {
    uint32_t group = (first / 64 + i) % GROUPS;
    uint64_t open = ~atomic_load_explicit(&full[group], memory_order_relaxed);
    open &= i == 0 ? ~below : i == GROUPS ? below : ~0ULL;
    for (; open && !block; open &= open - 1) {
      block = take_of_word(base, group * 64 + (uint32_t)__builtin_ctzll(open));
    }
  }
  return block;
}

bool hak_zero_size_owns(const void *block) {
  uintptr_t base = (uintptr_t)atomic_load_explicit(&range, memory_order_relaxed);
  return base != 0 && (uintptr_t)block - base < BYTES;
}

/* Aborts if the block is not live. */
static _Atomic uint64_t *word_of(const void *block, uint64_t *bit, const char *function) {
  size_t offset = (size_t)((const char *)block - atomic_load_explicit(&range, memory_order_relaxed));
  if (offset % HAK_BLOCK_MIN != 0) {
    hak_misuse(function, HAK_MISUSE_NOT_START, block);
  }
  size_t index = offset >> HAK_BLOCK_SHIFT;
  *bit = 1ULL << index % 64;
  if (!(atomic_load_explicit(&taken[index / 64], memory_order_relaxed) & *bit)) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block);
  }
  return &taken[index / 64];
}

void hak_zero_size_give(void *block, const char *function) {
  uint64_t bit;
  _Atomic uint64_t *word = word_of(block, &bit, function);
  uint64_t before = atomic_fetch_and(word, ~bit); /* pairs with take_of_word and, in one total order, with mark_full */
  if (!(before & bit)) {
    hak_misuse(function, HAK_MISUSE_DOUBLE_FREE, block); /* two threads free it at the same time */
  }
  if (before == UINT64_MAX) {
    mark_open((size_t)(word - taken));
  }
}

void hak_zero_size_check(const void *block, const char *function) {
  uint64_t bit;
  word_of(block, &bit, function);
}
