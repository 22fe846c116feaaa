#include "system.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

static struct {
  uint32_t skip, count;
} plans[SYSTEM_CALLS];
static const int errors[SYSTEM_CALLS] = {
    [SYSTEM_MMAP] = ENOMEM,   [SYSTEM_MUNMAP] = ENOMEM, [SYSTEM_MADVISE] = EAGAIN,      [SYSTEM_MPROTECT] = ENOMEM,
    [SYSTEM_MREMAP] = EFAULT, [SYSTEM_WRITE] = EINTR,   [SYSTEM_CLOCK_GETTIME] = EPERM, [SYSTEM_GETRANDOM] = ENOSYS,
    [SYSTEM_OPEN] = EMFILE,   [SYSTEM_NAME] = EINVAL,
};

static size_t refused_mappings_from;
static bool has_limit;
static size_t left_to_map;
static struct {
  SystemCall call;
  void (*body)(void);
} interlude;
static struct {
  bool set;
  _Atomic uint64_t ms, busy_ms;
} fixed_clock;
static struct {
  bool set;
  unsigned long type, value;
} fixed_auxiliary;
static bool noreplace_is_unknown, hints_are_ignored;
static size_t misaligned_by;
static struct {
  bool set;
  size_t pages;
} fixed_fault;
enum { ADVICES = 32, ADVICE_COUNTED_FROM = 1 << 20 };
static size_t advices[ADVICES];
static SystemNamed named;
static const char *huge_mode = "[always] madvise never";

void system_refuse(SystemCall call, uint32_t skip, uint32_t count) {
  plans[call].skip = skip;
  plans[call].count = count;
}

void system_allow(void) {
  for (int call = 0; call < SYSTEM_CALLS; call++) {
    plans[call].skip = plans[call].count = 0;
  }
  refused_mappings_from = 0;
}

void system_limit_mapped(size_t bytes) {
  has_limit = true;
  left_to_map = bytes;
}

void system_refuse_mappings_from(size_t bytes) {
  refused_mappings_from = bytes;
}

void system_during(SystemCall call, void (*body)(void)) {
  interlude.call = call;
  interlude.body = body;
}

bool system_was_during(void) {
  return interlude.body == NULL;
}

static bool is_refused(SystemCall call) {
  void (*body)(void) = interlude.body;
  if (body && interlude.call == call) {
    interlude.body = NULL;
    body();
  }
  if (plans[call].count == 0) {
    return false;
  }
  if (plans[call].skip > 0) {
    plans[call].skip--;
    return false;
  }
  plans[call].count -= plans[call].count != SYSTEM_ALL;
  errno = errors[call];
  return true;
}

void system_set_clock_ms(uint64_t ms) {
  fixed_clock.ms = ms;
  fixed_clock.set = true;
}

void system_advance_clock_ms(uint64_t ms) {
  system_set_clock_ms(fixed_clock.ms + ms);
}

void system_be_busy_ms(uint64_t ms) {
  fixed_clock.busy_ms += ms;
}

void system_set_auxiliary(unsigned long type, unsigned long value) {
  fixed_auxiliary.set = true;
  fixed_auxiliary.type = type;
  fixed_auxiliary.value = value;
}

size_t system_advices(int advice) {
  return advices[advice];
}

void system_set_huge_mode(const char *text) {
  huge_mode = text;
}

SystemNamed system_named(void) {
  return named;
}

void system_set_fault_pages(size_t pages) {
  fixed_fault.set = true;
  fixed_fault.pages = pages;
}

void system_misalign_moves(size_t bytes) {
  misaligned_by = bytes;
}

void system_ignore_hints(void) {
  hints_are_ignored = true;
}

void system_forget_noreplace(void) {
  noreplace_is_unknown = true;
}

/* The names are the linker's: --wrap=f sends calls of f to __wrap_f and offers the original as __real_f. */
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
int __real_munmap(void *at, size_t bytes);
int __real_madvise(void *at, size_t bytes, int advice);
void *__real_mremap(void *at, size_t bytes, size_t new_bytes, int flags, void *to);
int __real_hak_clock(clockid_t clock, struct timespec *now);
unsigned long __real_hak_auxiliary(unsigned long type);
long __real_hak_direct_call(long number, const long argument[6]);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_madvise(void *at, size_t bytes, int advice);
void *__wrap_mremap(void *at, size_t bytes, size_t new_bytes, int flags, void *to);
int __wrap_hak_clock(clockid_t clock, struct timespec *now);
unsigned long __wrap_hak_auxiliary(unsigned long type);
long __wrap_hak_direct_call(long number, const long argument[6]);
size_t __real_hak_direct_read(const char *name, void *to, size_t bytes);
size_t __wrap_hak_direct_read(const char *name, void *to, size_t bytes);

size_t __wrap_hak_direct_read(const char *name, void *to, size_t bytes) {
  if (strcmp(name, "/sys/kernel/mm/transparent_hugepage/enabled") != 0) {
    int saved = errno;
    bool refused = is_refused(SYSTEM_OPEN);
    errno = saved;
    *(char *)to = '\0';
    return refused ? 0 : __real_hak_direct_read(name, to, bytes);
  }
  return (size_t)snprintf(to, bytes, "%s\n", huge_mode);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (is_refused(SYSTEM_MMAP)) {
    return MAP_FAILED;
  }
  bool too_much = has_limit && !(flags & MAP_FIXED) && bytes > left_to_map;
  if (too_much || (refused_mappings_from > 0 && bytes >= refused_mappings_from)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  left_to_map -= has_limit && !(flags & MAP_FIXED) ? bytes : 0;
  at = hints_are_ignored && !(flags & MAP_FIXED) ? NULL : at;
  flags &= noreplace_is_unknown ? ~MAP_FIXED_NOREPLACE : ~0;
  return __real_mmap(at, bytes, protection, flags, file, offset);
}

int __wrap_munmap(void *at, size_t bytes) {
  int failed = is_refused(SYSTEM_MUNMAP) ? -1 : __real_munmap(at, bytes);
  left_to_map += has_limit && !failed ? bytes : 0;
  return failed;
}

int __wrap_madvise(void *at, size_t bytes, int advice) {
  advices[advice] += bytes >= ADVICE_COUNTED_FROM;
  return is_refused(SYSTEM_MADVISE) ? -1 : __real_madvise(at, bytes, advice);
}

/* Callers pass `to` only with MREMAP_FIXED; without, the kernel ignores it. */
void *__wrap_mremap(void *at, size_t bytes, size_t new_bytes, int flags, void *to) {
  const size_t chunk = (size_t)2 << 20;
  if (is_refused(SYSTEM_MREMAP)) {
    return MAP_FAILED;
  }
  if (misaligned_by > 0 && new_bytes != bytes) { /* otherwise nothing moves */
    char *place = __real_mmap(NULL, new_bytes + 2 * chunk, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __real_munmap(place, new_bytes + 2 * chunk);
    to = place + (-(uintptr_t)place & (chunk - 1)) + misaligned_by;
    flags |= MREMAP_FIXED;
  }
  return __real_mremap(at, bytes, new_bytes, flags, to);
}

/* Real kernels may lack names for mappings. This one has them, unless the test refuses them. */
static long name_mapping(const long argument[6]) {
  /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
  named = (SystemNamed){(const void *)argument[2], (size_t)argument[3], named.times + 1, (const char *)argument[4]};
  bool naming = argument[0] == PR_SET_VMA && argument[1] == PR_SET_VMA_ANON_NAME;
  return !naming || is_refused(SYSTEM_NAME) ? -EINVAL : 0;
}

static long tell_resident(const long argument[6]) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)argument[1];
  if (!fixed_fault.set || bytes == page) { /* a page that was not touched */
    return __real_hak_direct_call(SYS_mincore, argument);
  }
  unsigned char *resident = (unsigned char *)argument[2]; /* NOLINT(performance-no-int-to-ptr) */
  for (size_t i = 0; i < bytes / page; i++) {
    resident[i] = i < fixed_fault.pages;
  }
  return fixed_fault.pages > 0 ? 0 : -ENOMEM;
}

int __wrap_hak_clock(clockid_t clock, struct timespec *now) {
  if (is_refused(SYSTEM_CLOCK_GETTIME)) {
    return -EPERM;
  }
  bool busy = clock == CLOCK_THREAD_CPUTIME_ID;
  if (!fixed_clock.set || (!busy && clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)) {
    return __real_hak_clock(clock, now);
  }
  uint64_t ms = busy ? fixed_clock.busy_ms : fixed_clock.ms;
  now->tv_sec = (time_t)(ms / 1000);
  now->tv_nsec = (long)(ms % 1000 * 1000000);
  return 0;
}

unsigned long __wrap_hak_auxiliary(unsigned long type) {
  return fixed_auxiliary.set && type == fixed_auxiliary.type ? fixed_auxiliary.value : __real_hak_auxiliary(type);
}

/* The core makes a few mapping calls directly. These fail with the other calls of their kind. */
static SystemCall kind_of(long number) {
  static const struct {
    long number;
    SystemCall call;
  } kinds[] = {{SYS_mmap, SYSTEM_MMAP},          {SYS_munmap, SYSTEM_MUNMAP}, {SYS_madvise, SYSTEM_MADVISE},
               {SYS_write, SYSTEM_WRITE},        {SYS_openat, SYSTEM_OPEN},   {SYS_mprotect, SYSTEM_MPROTECT},
               {SYS_getrandom, SYSTEM_GETRANDOM}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (kinds[i].number == number) {
      return kinds[i].call;
    }
  }
  return SYSTEM_CALLS;
}

long __wrap_hak_direct_call(long number, const long argument[6]) {
  if (number == SYS_prctl) {
    return name_mapping(argument);
  }
  if (number == SYS_mincore) {
    return tell_resident(argument);
  }
  if (number == SYS_madvise) {
    advices[argument[2] % ADVICES] += (size_t)argument[1] >= ADVICE_COUNTED_FROM;
  }
  SystemCall call = kind_of(number);
  return call != SYSTEM_CALLS && is_refused(call) ? -errno : __real_hak_direct_call(number, argument);
}
