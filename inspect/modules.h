/* Duty: what code is mapped where: the rows of /proc/self/maps, and, kept from the last look, the ranges of addresses
 * that can be executed, by which a return address is told from another number.
 * Data: the ranges, written by one thread at a time and read by any without a lock; a reader that meets a writer learns
 * that nothing is known. Layers below: file, meta, lock, os. */
#pragma once

#include "lock.h"

typedef struct hak_mapping {
  uintptr_t start, end;
  size_t offset; /* in the file */
  bool executable;
  const char *name; /* empty: none */
} hak_mapping_t;

HAK_INLINE bool hak_mapping_holds(const hak_mapping_t *mapping, uintptr_t address) {
  return address >= mapping->start && address < mapping->end;
}

enum { HAK_MAPS_BUFFER_BYTES = 8 << 10 }; /* more than the longest row */

/* Every row, in ascending order, until `visit` says false. False: they cannot be read. */
bool hak_modules_each(bool (*visit)(const hak_mapping_t *mapping, void *argument), void *argument,
                      char buffer[HAK_MAPS_BUFFER_BYTES]);
/* The mapping that an address lies in, whose name stands in the buffer; of no bytes: in none. False: unknown. */
bool hak_modules_find(uintptr_t address, hak_mapping_t *found, char buffer[HAK_MAPS_BUFFER_BYTES]);
/* The same without its name, and without a buffer. */
bool hak_modules_mapping_of(uintptr_t address, hak_mapping_t *mapping);
/* Learn the ranges. False: another thread is about to, or it cannot be done. */
bool hak_modules_look(void);
/* Whether code may be there, as far as is known; where it is not, and the last look was a while ago, looks again. */
bool hak_modules_is_code(uintptr_t address);
/* Whether this is a library of its own, and the address is of its code. Linked into a program, nothing is. */
bool hak_modules_is_mine(uintptr_t address);

extern hak_lock_t hak_modules_lock;
