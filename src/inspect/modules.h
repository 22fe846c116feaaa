/* Duty: mapped code: the rows of /proc/self/maps, and a table of the executable address ranges. The table distinguishes
 * return addresses from other numbers.
 * Data: the ranges. One thread at a time writes them, and any thread reads them without a lock; during a write, readers
 * get the answer "unknown". Layers below: file, meta, lock, os. */
#pragma once

#include "system/system.h"

typedef struct hak_mapping {
  uintptr_t start, end;
  size_t offset; /* offset in the file */
  bool executable;
  const char *name; /* empty: the mapping has no name */
} hak_mapping_t;

HAK_INLINE bool hak_module_holds(const hak_mapping_t *mapping, uintptr_t address) {
  return address >= mapping->start && address < mapping->end;
}

enum { HAK_MAPS_BUFFER_BYTES = 8 << 10 }; /* longer than the longest row */

/* Visit every row, in ascending order, until `visit` returns false. Returns false if the rows cannot be read. */
bool hak_modules_each(bool (*visit)(const hak_mapping_t *mapping, void *argument), void *argument,
                      char buffer[HAK_MAPS_BUFFER_BYTES]);
/* Find the mapping of an address; its name is in the buffer. If no mapping holds the address, the result has no bytes.
 * False: the rows cannot be read. */
bool hak_modules_find(uintptr_t address, hak_mapping_t *found, char buffer[HAK_MAPS_BUFFER_BYTES]);
/* Find the mapping without its name, which takes no buffer. */
bool hak_modules_mapping_of(uintptr_t address, hak_mapping_t *mapping);
/* Read the ranges anew. False: another thread is reading them, or they cannot be read. */
bool hak_modules_look(void);
/* A number that changes with every read of the ranges. */
uint32_t hak_modules_version(void);
/* Whether the known ranges hold the address. If they do not, and were not read for a while, the function reads them
 * anew. */
bool hak_modules_is_code(uintptr_t address);
/* Like hak_modules_is_code for a return address, which is certainly code, perhaps of a library that was loaded just
 * now. If the known ranges lack it, they are read at once. If they still lack it, the next such read waits for the
 * usual pause. */
bool hak_modules_learn(uintptr_t caller);
/* Whether the address is code of this shared library. Always false if the library is linked into the program. */
bool hak_modules_is_mine(uintptr_t address);

extern hak_lock_t hak_modules_lock;
