/* Duty: copy and zero large blocks without making untouched pages resident. Data: none. Layers below: os. */
#pragma once

#include "base/base.h"

/* As hak_is_zero, but faster for blocks of some KiB. */
bool hak_sparse_is_zero(const void *at, size_t bytes);
/* `zeroed`: all of `to` reads as zeros. */
void hak_sparse_copy(void *to, const void *from, size_t bytes, bool zeroed);
/* Pages that read as zeros are not written. At 32 MiB and above `at` is the start of a page, and all pages are
 * discarded: such blocks are often sparse, and even a read of an untouched page is a fault. */
void hak_sparse_zero(void *at, size_t bytes);
