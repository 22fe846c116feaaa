/* Duty: system calls and facts of the process that bypass every function of another library. No library can intercept
 * them, so they are safe under a lock and in the middle of a heap change. Calls that take memory from the program use
 * libc's functions instead (os.c), because other libraries watch these. Data: facts read once. Below: base. */
#pragma once

#include "base/base.h"

#include <time.h>

/* Returns the result, or -errno; errno itself stays unchanged. Arguments are words; missing ones are 0. */
#define hak_direct(number, ...) hak_direct_call(number, (const long[6]){__VA_ARGS__})
long hak_direct_call(long number, const long argument[6]);

/* A result of hak_direct in libc's convention: -1, and errno. */
long hak_direct_errno(long result);

/* The thread is under strict seccomp: any call but `read` and `write` would kill it. From now on the other calls are
 * not made but fail with EPERM, so a request for which the heap has no memory is refused. */
void hak_direct_confine(void);
bool hak_direct_is_confined(void);

/* Read a file from its start, up to the buffer's size less one, and append a 0. Returns the bytes read; 0: none. */
size_t hak_direct_read(const char *name, void *to, size_t bytes);

/* An entry of the auxiliary vector (AT_PAGESZ, ...). 0: the kernel did not provide it. */
unsigned long hak_auxiliary(unsigned long type);

/* The address of a symbol that the ELF file mapped at `base` defines; 0: it defines none of the name. */
uintptr_t hak_object_symbol(uintptr_t base, const char *name);

/* As clock_gettime, by the vDSO where the kernel offers it. Returns 0, or -errno. */
int hak_clock(clockid_t clock, struct timespec *now);
