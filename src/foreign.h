/* Duty: blocks that another allocator of the process made: libc's own heap (a plugin loaded with RTLD_DEEPBIND
 * allocates there), or a second copy of this library. Data: the list of copies, in the copy loaded first.
 * Layers below: types, os. */
#pragma once

#include "base.h"

/* Before main, and before libc's own malloc could have been called. */
void hak_foreign_start(void);

/* Each returns false when nobody is known to own the block. */
bool hak_foreign_free(void *block);
bool hak_foreign_realloc(void *block, size_t bytes, void **result);
bool hak_foreign_usable(const void *block, size_t *bytes);
