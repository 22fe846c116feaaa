/* Duty: what slow.c offers beside the two halves of fast.h. Layers below: fast. */
#ifndef HAK_SLOW_H
#define HAK_SLOW_H

#include "base.h"

/* As malloc; *zeroed: all of it reads as zeros. */
void *hak_alloc_tell_zeroed(size_t bytes, bool *zeroed);

/* NULL, with ENOMEM. */
void *hak_no_memory(void);

#endif
