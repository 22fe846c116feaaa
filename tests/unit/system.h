/* Duty: stand between the core and the operating system: let chosen calls fail, do something in the middle of one, and
 * set the clock by hand.
 * Data: the plans below; changed only while one thread runs, but for the clock. Every call is passed on unless a plan
 * says otherwise. */
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
  SYSTEM_NAME, /* of a mapping */
  SYSTEM_CALLS
} SystemCall;

#define SYSTEM_ALL UINT32_MAX

/* After `skip` more calls of the kind, `count` of them fail. */
void system_refuse(SystemCall call, uint32_t skip, uint32_t count);
/* No call fails from now on. */
void system_allow(void);
/* Mappings of at least so many bytes fail from now on; 0: none do. */
void system_refuse_mappings_from(size_t bytes);

/* From now on so many bytes may be mapped more than are unmapped. */
void system_limit_mapped(size_t bytes);

/* The next call of the kind runs `body` before it does anything: what another thread might do at that moment. */
void system_during(SystemCall call, void (*body)(void));
/* Whether that has happened. */
bool system_was_during(void);

/* The monotonic clocks show this, and stand still, from now on. */
void system_set_clock_ms(uint64_t ms);
void system_advance_clock_ms(uint64_t ms);

/* The answer to hak_auxiliary(type) from now on; one type at a time. */
void system_set_auxiliary(unsigned long type, unsigned long value);

/* How often this advice was given for at least a MiB, refused or not. */
size_t system_advices(int advice);

/* What the setting for pages of 2 MiB says; at first "[always] madvise never". It is read once. */
void system_set_huge_mode(const char *text);

/* The mapping that was last given a name, refused or not, and how often that was. */
typedef struct SystemNamed {
  const void *at;
  size_t bytes, times;
  const char *name;
} SystemNamed;
SystemNamed system_named(void);

/* A kernel on which a touch makes so many pages resident, the touched one among them. 0: it does not tell. */
void system_set_fault_pages(size_t pages);

/* Before Linux 6.7 what mremap moves is not aligned: from now on it comes to lie `bytes` behind a multiple of 2 MiB. */
void system_misalign_moves(size_t bytes);

/* From now on the kernel chooses where a mapping lies, whatever it is told. */
void system_ignore_hints(void);

/* Before Linux 4.17 MAP_FIXED_NOREPLACE was not known: the address is only a hint. */
void system_forget_noreplace(void);

#endif
