/* Duty: copy and zero large blocks without making pages resident that nobody wrote to. Data: none. Layers below:
 * os. */
#pragma once

#include "base.h"

/* `zeroed`: all of `to` reads as zeros. */
void hak_sparse_copy(void *to, const void *from, size_t bytes, bool zeroed);
/* Pages that read as zeros are not written to: one that nobody touched stays so. */
void hak_sparse_zero(void *at, size_t bytes);
