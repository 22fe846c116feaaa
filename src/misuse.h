/* Duty: say what the caller did wrong and stop the process before the heap is harmed.
 * Data: none. Layers below: os. */
#ifndef HAK_MISUSE_H
#define HAK_MISUSE_H

#include "base.h"

#define HAK_MISUSE(name, text) HAK_MISUSE_##name,
typedef enum hak_misuse {
#include "misuse.def"
} hak_misuse_t;
#undef HAK_MISUSE

/* Print "hakmem: FUNCTION(): REASON: 0xADDRESS" on stderr, without allocating, and abort(). */
_Noreturn HAK_COLD void hak_misuse(const char *function, hak_misuse_t reason, const void *block);

#endif
