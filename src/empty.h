/* Duty: blocks of no bytes: addresses of their own that nobody can read or write, so that who uses one is told by a
 * fault. Data: a range without access, and a bit for each address of it (atomics). Layers below: os, options. */
#pragma once

#include "base.h"

/* NULL: there is none, and a small block has to do. */
void *hak_empty_take(void);
bool hak_empty_owns(const void *block);
/* What may be done with one. */
extern const struct hak_owner hak_empty_owner;
