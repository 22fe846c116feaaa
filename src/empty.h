/* Duty: blocks of no bytes. Each has an address of its own without access, so that a read or write faults. Data: a
 * range without access, and a bit for each address in it (atomics). Layers below: os, options. */
#pragma once

#include "base.h"

/* NULL: none is left, and the caller uses a small block instead. */
void *hak_empty_take(void);
bool hak_empty_owns(const void *block);
/* The functions for such blocks. */
extern const struct hak_owner hak_empty_owner;
