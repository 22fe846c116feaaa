/* Duty: find data races as C11 defines them: plain accesses to the same memory that no acquire and release order. It
 * uses vector clocks in each run. So it finds an atomic operation with too weak an order, although the interleavings
 * themselves are sequentially consistent.
 * Limits: an access is identified by its first byte; fences between threads are not supported. */
#ifndef HAK_TEST_RACES_H
#define HAK_TEST_RACES_H

#include <stdbool.h>

void races_start(void);
/* Forget the last run. `watch`: whether to check the next one. */
void races_watch(bool watch);

/* An access by the running thread. */
void races_plain(const void *address, bool write);
void races_acquire(const void *address);
/* keep: earlier releases at this address by other threads stay valid, as after a read-modify-write. */
void races_release(const void *address, bool keep);
/* A relaxed store, which ends earlier releases at this address. */
void races_overwrite(const void *address);

/* A store that is no read-modify-write. */
void races_stored(const void *address);
/* Whether an atomic load could, on other hardware, read the value before the last such store. */
bool races_may_be_stale(const void *address);

#endif
