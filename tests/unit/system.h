/* Duty: stand between the core and the operating system: let chosen calls fail, and set the clock by hand.
 * Data: the plans below; changed only while one thread runs. Every call is passed on unless a plan says otherwise. */
#ifndef HAK_TEST_SYSTEM_H
#define HAK_TEST_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

typedef enum SystemCall {
  SYSTEM_MMAP,
  SYSTEM_MUNMAP,
  SYSTEM_MADVISE,
  SYSTEM_MPROTECT,
  SYSTEM_MREMAP,
  SYSTEM_WRITE, /* fails with EINTR */
  SYSTEM_CLOCK_GETTIME,
  SYSTEM_GETRLIMIT,
  SYSTEM_CALLS
} SystemCall;

#define SYSTEM_ALL UINT32_MAX

/* After `skip` more calls of the kind, `count` of them fail. */
void system_refuse(SystemCall call, uint32_t skip, uint32_t count);
/* No call fails from now on. */
void system_allow(void);

/* The monotonic clocks show this, and stand still, from now on. */
void system_set_clock_ms(uint64_t ms);
void system_advance_clock_ms(uint64_t ms);

/* The answers to getrlimit(RLIMIT_AS) and getauxval(type) from now on; one type at a time. */
void system_set_address_space_limit(uint64_t bytes);
void system_set_auxiliary(unsigned long type, unsigned long value);

/* Before Linux 4.17 MAP_FIXED_NOREPLACE was not known: the address is only a hint. */
void system_forget_noreplace(void);

#endif
