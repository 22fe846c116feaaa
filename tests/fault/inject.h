/* Duty: intercept the calls of the core to the operating system, count them, and make chosen ones fail.
 *
 * The executable is linked with --wrap for each call, so calls of the core arrive here and calls of the C library
 * itself do not. The plan is read from the environment at the first call, which may precede main(). */
#ifndef HAK_TEST_INJECT_H
#define HAK_TEST_INJECT_H

#include <stdbool.h>
#include <stdint.h>

/* FAULT_PLAN=KIND:FIRST:COUNT makes the calls FIRST .. FIRST + COUNT - 1 of this kind fail, counted from 1.
 * KIND is one of the calls below, or `any`. */
#define FAULT_PLAN_VARIABLE "FAULT_PLAN"

#define FAULT_CALLS(X) \
  X(mmap) X(munmap) X(madvise) X(mprotect) X(mremap) X(prctl) X(openat) X(read) X(pread64) X(write) X(mincore)

/* Count a call of this kind. True: it must fail. */
bool inject_fails(const char *kind);

/* From now on no call fails, and none is counted. */
void inject_stop(void);

/* Number of calls of this kind, or of all (`any`), before inject_stop. */
uint64_t inject_calls(const char *kind);
/* Number of calls, of all kinds, that were made to fail. */
uint64_t inject_failures(void);

#endif
