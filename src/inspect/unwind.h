/* Duty: the stack of the calling thread as return addresses, while it allocates. The walk waits for no lock, allocates
 * nothing, and reads memory only where the thread's stack is known to be.
 *
 * The walk follows frame pointers from frame to frame. The stack's end is known in advance: the kernel set it for the
 * main thread, and any other thread's descriptor lies above its stack. On any other stack (a fiber's, a signal's), and
 * in code without frame pointers, it reports only the caller of the allocator. An optional unwinder then reads the
 * exception tables, and takes the locks that it needs.
 * Data: the choice of the unwinder; for some threads, how far their stacks reach down. Layers below: modules,
 * options. */
#pragma once

#include "system/system.h"

enum { HAK_UNWIND_MAX = 64 };

/* Load the chosen unwinder. Threads may call it repeatedly, but not inside the allocator. False: the unwinder is not
 * available, and frame pointers serve instead. */
bool hak_unwind_start(hak_unwinder_t unwinder);

/* Return addresses of the allocator's callers, innermost first; at most HAK_UNWIND_MAX. */
size_t hak_unwind(uintptr_t pcs[HAK_UNWIND_MAX]);
/* Like hak_unwind without a check, so the last entries may be no code addresses. Use the result only to look for a
 * stack that was checked before. Returns 0 if the stack can only be read by hak_unwind. */
size_t hak_unwind_unchecked(uintptr_t pcs[HAK_UNWIND_MAX]);
