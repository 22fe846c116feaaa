/* Duty: intercept the core's calls to the operating system: make chosen calls fail, run code in the middle of one, and
 * set the clock by hand.
 * Data: the plans below. Only the clock may change while more than one thread runs. Every call is passed on unless a
 * plan says otherwise. */
#ifndef HAK_TEST_SYSTEM_H
#define HAK_TEST_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum SystemCall {
  SYSTEM_MMAP,
  SYSTEM_MUNMAP,
  SYSTEM_MADVISE,
  SYSTEM_MPROTECT,
  SYSTEM_MREMAP,
  SYSTEM_WRITE, /* fails with EINTR */
  SYSTEM_OPEN,
  SYSTEM_CLOCK_GETTIME,
  SYSTEM_GETRANDOM,
  SYSTEM_NAME, /* naming a mapping */
  SYSTEM_CALLS
} SystemCall;

#define SYSTEM_ALL UINT32_MAX

/* After `skip` more calls of the kind, `count` of them fail. */
void system_refuse(SystemCall call, uint32_t skip, uint32_t count);
/* No call fails from now on. */
void system_allow(void);
/* Mappings of at least so many bytes fail from now on; 0: none do. */
void system_refuse_mappings_from(size_t bytes);

/* From now on, mappings may exceed unmappings by at most so many bytes. */
void system_limit_mapped(size_t bytes);

/* The next call of the kind first runs `body`, as another thread might do at that moment. */
void system_during(SystemCall call, void (*body)(void));
/* Whether that has happened. */
bool system_was_during(void);

/* From now on, the monotonic clocks show this time, and stand still. */
void system_set_clock_ms(uint64_t ms);
void system_advance_clock_ms(uint64_t ms);
/* Threads have used so much more processor time, as seen by each; only after system_set_clock_ms. */
void system_be_busy_ms(uint64_t ms);

/* The answer to hak_auxiliary(type) from now on; one type at a time. */
void system_set_auxiliary(unsigned long type, unsigned long value);

/* How often this advice was given for at least a MiB, refused or not. */
size_t system_advices(int advice);

/* Sets the text of the system's setting for pages of 2 MiB; at first "[always] madvise never". The library reads it
 * once. */
void system_set_huge_mode(const char *text);

/* The mapping that was last named, and the number of such calls, refused ones included. */
typedef struct SystemNamed {
  const void *at;
  size_t bytes, times;
  const char *name;
} SystemNamed;
SystemNamed system_named(void);

/* Imitates a kernel on which a touch makes so many pages resident, including the touched one. 0: it does not say. */
void system_set_fault_pages(size_t pages);

/* Before Linux 6.7, mremap does not align a moved range. From now on, a moved range begins `bytes` behind a multiple of
 * 2 MiB. */
void system_misalign_moves(size_t bytes);

/* From now on, the kernel ignores address hints. */
void system_ignore_hints(void);

/* Imitates Linux before 4.17, which did not know MAP_FIXED_NOREPLACE: the address is only a hint. */
void system_forget_noreplace(void);

#endif
