/* Duty: what the two paths of fast.h leave over. Data: none. Layers below: hook, foreign, cache, large. */
#pragma once

#include "heap.h"

HAK_COLD void *hak_alloc_slow(size_t bytes);
HAK_COLD void hak_free_slow(void *block);
/* HAK_SMALL_MAX < bytes */
HAK_NOINLINE void *hak_alloc_large(size_t bytes);
/* As malloc; *zeroed: all of it reads as zeros. */
void *hak_alloc_tell_zeroed(size_t bytes, bool *zeroed);
/* NULL, with ENOMEM. */
void *hak_no_memory(void);
