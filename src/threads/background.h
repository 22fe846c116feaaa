/* Duty: periodic work, and a background thread (HAKMEM_BACKGROUND) that does it while the program is idle. A sleeping
 * process then still gives back idle memory. By default only a program with several threads gets one: its start then
 * changes no system call that requires a process with one thread. Layers below: depot, slab, arena, options. */
#pragma once

#include "base/base.h"

/* An active thread does the periodic work: it ends windows, and begins to purge the idle memory that they found. */
void hak_background_tick(uint64_t now_ms);

/* Start the thread, if it is wanted. The C library may hold locks over `free` that starting a thread takes, so only
 * requests for memory call it. */
void hak_background_ensure(void);

/* The calling thread is active: a background thread that sleeps without a time limit resumes its ticks. */
void hak_background_wake(void);

/* The number of threads with a cache. A background thread that they do not allow ends at once. The caller
 * holds the lock of the heaps. */
void hak_background_set_threads(size_t threads);

/* Every thread calls this at its end. If the background thread shall end, wait until the system has removed it: a
 * thread that joined it then is the only one, and the background thread is not the last, which would run the handlers
 * of exit on its small stack. The load of the threads has ended, too: what it left free goes back. */
void hak_background_thread_ends(void);

/* The child of a fork has no such thread. */
void hak_background_fork_child(size_t threads);
