/* Duty: periodic work, and a background thread (HAKMEM_BACKGROUND) that does it while the program is idle. A sleeping
 * process then still gives back idle memory. Layers below: depot, slab, arena, options. */
#pragma once

#include "base/base.h"

/* An active thread does the periodic work: it ends windows, and begins to purge the idle memory that they found. */
void hak_background_tick(uint64_t now_ms);

/* Start the thread, if the option asks for it and there is none. Call it only where the C library may allocate
 * memory. */
void hak_background_ensure(void);

/* The child of a fork has no such thread. */
void hak_background_fork_child(void);
