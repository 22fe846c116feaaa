/* Duty: copy, zero and judge large blocks without making pages resident that nobody wrote to. Data: none. Layers below:
 * os. */
#pragma once

#include "base.h"

/* `zeroed`: all of `to` reads as zeros. */
void hak_sparse_copy(void *to, const void *from, size_t bytes, bool zeroed);
/* Most pages are, as far as some tell. Zeros count as not written: they may be ours, for an owner who wrote little. */
bool hak_sparse_is(const char *at, size_t bytes);
/* What was written to little loses its pages; the rest is overwritten. */
void hak_sparse_zero(void *at, size_t bytes);
