/* Duty: the stack of the calling thread as return addresses, while it allocates: no lock is waited for, nothing is
 * allocated, and memory is read only where the thread's stack is known to be.
 *
 * Frame pointers lead from frame to frame. Where the stack ends is known without asking: of the main thread's the
 * kernel put it at the start; of any other the thread's own descriptor lies above it. On a stack of neither kind (a
 * fiber's, a signal's) only the caller of the allocator is told. So is where code keeps no frame pointers; then an
 * unwinder may be asked for, which reads the tables of exceptions, and locks what it must.
 * Data: which unwinder; of some threads how far down their stacks go. Layers below: modules,
 * options. */
#pragma once

#include "options.h"

enum { HAK_UNWIND_MAX = 64 };

/* Callable often, not in the allocator; without it, frame pointers are followed. Loads the unwinder that is asked for:
 * false, and frame pointers are followed, if it is not to be had. */
bool hak_unwind_start(hak_unwinder_t unwinder);

/* The return addresses of who called the allocator, the innermost first; at most HAK_UNWIND_MAX. */
size_t hak_unwind(uintptr_t pcs[HAK_UNWIND_MAX]);
/* The same, but the last ones may be other numbers than addresses of code: to be compared with stacks that were told
 * before. 0: an unwinder is to be asked. */
size_t hak_unwind_unchecked(uintptr_t pcs[HAK_UNWIND_MAX]);
