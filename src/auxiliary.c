/* Facts from the auxiliary vector, read without libc's functions. Part of direct.h, the lowest layer. */
#include "direct.h"

#include <stdint.h>
#include <sys/auxv.h>

enum { TYPES = 64, ENTRIES = 96 };

/* The first allocation already needs the vector, and other libraries may define getauxval. So this reads it from the
 * kernel's file, and calls getauxval only if the file cannot be read. */
static _Atomic unsigned long values[TYPES];
static _Atomic bool known;

static void learn(void) {
  struct {
    unsigned long type, value;
  } entry[ENTRIES] = {{0, 0}};
  size_t count = hak_direct_read("/proc/self/auxv", entry, sizeof entry) / sizeof *entry;
  for (size_t i = 0; i < count && entry[i].type != AT_NULL; i++) {
    if (entry[i].type < TYPES) {
      atomic_store_explicit(&values[entry[i].type], entry[i].value, memory_order_relaxed);
    }
  }
  atomic_store_explicit(&known, true, memory_order_release);
}

unsigned long hak_auxiliary(unsigned long type) {
  if (!atomic_load_explicit(&known,
                            memory_order_acquire)) { /* several threads may read it at once, with the same result */
    learn();
  }
  bool was_read = atomic_load_explicit(&values[AT_PAGESZ], memory_order_relaxed) != 0;
  return was_read && type < TYPES ? atomic_load_explicit(&values[type], memory_order_relaxed) : getauxval(type);
}
