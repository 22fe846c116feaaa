/* Duty: mapped code: a table of the executable address ranges, which distinguishes return addresses from other numbers.
 * Data: the ranges. One thread at a time writes them, and any thread reads them without a lock; during a write, readers
 * get the answer "unknown". Layers below: maps, meta, lock, os. */
#pragma once

#include "system/system.h"

/* Find the mapping of an address without its name. If none holds the address, the result has no bytes. False: the rows
 * cannot be read now. */
bool hak_modules_mapping_of(uintptr_t address, hak_mapping_t *mapping);
/* Read the ranges anew. False: another thread is reading the ranges, or nothing can be read. */
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
