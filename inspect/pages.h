/* Duty: pages that nobody may touch: by advice where the kernel has guard pages (6.13), which splits no mapping; else
 * by protection. Data: none. Layers below: os. */
#pragma once

#include "base.h"

typedef enum hak_pages { HAK_PAGES_OPEN, HAK_PAGES_ADVISED, HAK_PAGES_PROTECTED } hak_pages_t;

/* Whoever touches them gets SIGSEGV; what they held is lost. OPEN: it cannot be done. */
hak_pages_t hak_pages_shut(void *at, size_t bytes);
/* The end of that; they may read as zeros. False: it cannot be done. */
bool hak_pages_open(void *at, size_t bytes, hak_pages_t how);
/* Copies memory of this process, which the kernel reads, so that an address which is none does no harm. False: it could
 * not be read. */
bool hak_pages_read(uintptr_t at, void *to, size_t bytes);
