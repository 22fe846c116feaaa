/* Duty: what is due by the clock; and, where HAKMEM_BACKGROUND asks for it, a thread that looks at the clock when the
 * program does not: so a sleeping process gives back what is idle. Layers below: depot, slab, arena, options. */
#pragma once

#include "base.h"

/* A thread is active now: windows end, and what they found idle begins to go back. */
void hak_background_tick(uint64_t now_ms);

/* The thread begins, if it is wanted and there is none. To be called where memory may be allocated by the C library. */
void hak_background_ensure(void);

/* The child of a fork has none. */
void hak_background_fork_child(void);
