/* Duty: copy and zero large blocks without making pages resident that nobody wrote to. Data: none. Layers below:
 * os. */
#pragma once

#include "base.h"

/* `zeroed`: all of `to` reads as zeros. */
void hak_sparse_copy(void *to, const void *from, size_t bytes, bool zeroed);
/* From the start of a page. Pages that read as zeros are not written to. Of 32 MiB or more all pages are dropped: such
 * blocks are often sparse, and to read a page that nobody touched is a fault, too. */
void hak_sparse_zero(void *at, size_t bytes);
