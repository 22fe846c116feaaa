/* Duty: make pages inaccessible: by madvise(MADV_GUARD_INSTALL) where the kernel supports it (Linux 6.13), which splits
 * no mapping; else by mprotect. Data: none. Layers below: os. */
#pragma once

#include "base/base.h"

typedef enum hak_pages { HAK_PAGES_OPEN, HAK_PAGES_ADVISED, HAK_PAGES_PROTECTED } hak_pages_t;

/* Remove access: a touch raises SIGSEGV, and the content is lost. OPEN: it failed. */
hak_pages_t hak_pages_shut(void *at, size_t bytes);
/* Restore access; the pages may read as zeros. False: it failed. */
bool hak_pages_open(void *at, size_t bytes, hak_pages_t how);
/* Copy memory of this process through the kernel, so that an invalid address does no harm. False: it is not
 * readable. */
bool hak_pages_read(uintptr_t at, void *to, size_t bytes);
