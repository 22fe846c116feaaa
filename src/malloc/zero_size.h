/* Duty: blocks of no bytes. Each has an address of its own without access, so that a read or write faults. Data: a
 * range without access, and a bit for each address in it (atomics). Layers below: heap, options, os. */
#pragma once

#include "base/base.h"

/* Take an inaccessible block for malloc(0). NULL: none is left, so the caller uses a small block. */
void *hak_zero_size_take(void);
bool hak_zero_size_owns(const void *block);
/* Abort, and name `function`, if the block is not live. */
void hak_zero_size_check(const void *block, const char *function);
void hak_zero_size_give(void *block, const char *function);
