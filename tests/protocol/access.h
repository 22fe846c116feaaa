/* Duty: what instrumented code does to memory. The sources under test are compiled with -fsanitize=thread and linked
 * without its runtime: access.c is that runtime. Each atomic operation becomes a step and has its C11 meaning for the
 * race detector; each plain access is reported there and to `access_seen`. */
#ifndef HAK_TEST_ACCESS_H
#define HAK_TEST_ACCESS_H

#include <stdbool.h>

/* Supplied by the scenario: fails the run if nobody may touch this now. */
void access_seen(const void *address, bool write);
/* The same if an atomic load here may not read an old value; it could. */
void access_stale(const void *address);

#endif
