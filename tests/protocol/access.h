/* Duty: record the memory accesses of instrumented code. The sources under test are compiled with -fsanitize=thread;
 * access.c replaces its runtime. Each atomic operation becomes a step, and has its C11 meaning for the race detector.
 * Each plain access is reported to the race detector and to `access_seen`. */
#ifndef HAK_TEST_ACCESS_H
#define HAK_TEST_ACCESS_H

#include <stdbool.h>

/* Supplied by the scenario: fails the run if no thread may access this address now. */
void access_seen(const void *address, bool write);
/* The same for an atomic load that could read an old value: fails the run if an old value would be wrong. */
void access_stale(const void *address);

#endif
