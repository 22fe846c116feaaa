/* Duty: find plain accesses to the same memory that no acquire and release put in order, as C11 defines it: in each
 * run, by vector clocks. So an atomic operation with too weak an order is found although the interleavings themselves
 * are sequentially consistent.
 * Limits: an access is known by its first byte; fences between threads are refused. */
#ifndef HAK_TEST_RACES_H
#define HAK_TEST_RACES_H

#include <stdbool.h>

void races_start(void);
/* Forget the run before; look at the next one or do not. */
void races_watch(bool watch);

/* By the running thread. */
void races_plain(const void *address, bool write);
void races_acquire(const void *address);
/* keep: what others released there before stays, as by a read-modify-write. */
void races_release(const void *address, bool keep);
/* A relaxed store: what was released there is gone. */
void races_overwrite(const void *address);

/* A store that is no read-modify-write. */
void races_stored(const void *address);
/* Whether an atomic load could read, on other hardware, what was there before the last such store. */
bool races_may_be_stale(const void *address);

#endif
