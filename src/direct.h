/* Duty: system calls and facts of the process that pass no function of another library: nobody can stand before them,
 * so they may be made under a lock and in the middle of a change of the heap. Calls that take memory away from the
 * program are made by libc's functions instead (os.c), for others watch these. Data: facts read once. Below: base. */
#pragma once

#include "base.h"

#include <time.h>

/* The result, or -errno; errno stays as it is. Arguments are words; those left out are 0. */
#define hak_direct(number, ...) hak_direct_call(number, (const long[6]){__VA_ARGS__})
long hak_direct_call(long number, const long argument[6]);

/* From the start of a file to the end of the buffer, less one byte: a 0 follows what was read. 0: nothing was. */
size_t hak_direct_read(const char *name, void *to, size_t bytes);

/* Of the auxiliary vector (AT_PAGESZ, ...); 0: the kernel did not give it. */
unsigned long hak_auxiliary(unsigned long type);

/* As clock_gettime, without a system call where the kernel offers that. 0, or -errno. */
int hak_clock(clockid_t clock, struct timespec *now);
