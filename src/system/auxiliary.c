/* Facts from the auxiliary vector, read without libc's functions. Part of direct.h, the lowest layer. */
#include "direct.h"

#include <stdint.h>
#include <sys/auxv.h>

enum { TYPES = AT_SYSINFO_EHDR + 1, ENTRIES = 96 }; /* of the lower numbers; the heap asks for none above */

/* The first allocation already needs the vector, and other libraries may define getauxval. The kernel puts the vector
 * on the stack of the process, behind the environment. Where its place is not known, this reads the kernel's file, and
 * calls getauxval only if the file cannot be read. */
static _Atomic unsigned long values[TYPES] HAK_START_DATA;
static _Atomic bool known HAK_START_DATA;

typedef struct entry {
  unsigned long type, value;
} entry_t;

/* Glibc's loader notes where the kernel put the count of the program's arguments. In a program without a loader the
 * object holds another address, and this library is not a shared one. */
extern void *__libc_stack_end __attribute__((weak));
extern const bool hak_never_unloaded __attribute__((weak));

/* NULL: not known. Libc may have removed variables from the environment, which leaves more than one NULL behind it. */
static const entry_t *on_stack(void) {
  if (!&hak_never_unloaded || !&__libc_stack_end || !__libc_stack_end) {
    return NULL;
  }
  const uintptr_t *at = (const uintptr_t *)__libc_stack_end;
  for (at += 1 + *at + 1; *at != 0; at++) {
  }
  for (; *at == 0; at++) {
  }
  return (const entry_t *)at;
}

static void learn(void) {
  entry_t read[ENTRIES];
  const entry_t *entry = on_stack();
  size_t count = ENTRIES;
  if (!entry) {
    count = hak_direct_read("/proc/self/auxv", read, sizeof read) / sizeof *read;
    entry = read;
  }
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
