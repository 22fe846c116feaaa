/* Duty: recognize a block of libc's own malloc by the words before it. These words are read only where they can be
 * read, but the program may have written them. Data: none. Layers below: os. */
#pragma once

#include "base/base.h"

/* What libc must have, if the words are its own. One of the two is not 0. */
typedef struct hak_libc_chunk {
  size_t mapped;   /* bytes of the mapping that is this block alone */
  size_t in_arena; /* bytes of the block in an arena of libc's threads */
} hak_libc_chunk_t;

/* False: no block of libc is there. Blocks of its main arena, below the program break, are not found. */
bool hak_libc_chunk_find(const void *block, hak_libc_chunk_t *found);
