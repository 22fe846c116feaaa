#include "inject.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "check.h"

enum {
#define X(name) CALL_##name,
  FAULT_CALLS(X)
#undef X
      CALL_KINDS
};

static const char *const kind_names[] = {
#define X(name) #name,
    FAULT_CALLS(X)
#undef X
};

/* The entry CALL_KINDS counts all kinds together. */
static atomic_ullong calls[CALL_KINDS + 1];
static atomic_ullong failures;
static struct {
  int kind;
  unsigned long long first, last;
} plan;
static atomic_bool plan_read, stopped;

static int kind_of(const char *name, size_t length) {
  for (int kind = 0; kind < CALL_KINDS; kind++) {
    if (strlen(kind_names[kind]) == length && strncmp(name, kind_names[kind], length) == 0) {
      return kind;
    }
  }
  return CALL_KINDS;
}

/* The workload is single-threaded when it first calls the system, so this needs no lock. */
static void read_plan(void) {
  const char *text = getenv(FAULT_PLAN_VARIABLE);
  atomic_store(&plan_read, true);
  if (text == NULL) {
    return;
  }
  const char *colon = strchr(text, ':');
  char *end = NULL;
  CHECK(colon != NULL);
  plan.kind = kind_of(text, (size_t)(colon - text));
  plan.first = strtoull(colon + 1, &end, 10);
  CHECK(*end == ':');
  plan.last = plan.first + strtoull(end + 1, NULL, 10) - 1;
}

static bool must_fail(int kind) {
  if (!atomic_load(&plan_read)) {
    read_plan();
  }
  if (atomic_load(&stopped)) {
    return false;
  }
  unsigned long long of_kind = atomic_fetch_add(&calls[kind], 1) + 1;
  unsigned long long of_any = atomic_fetch_add(&calls[CALL_KINDS], 1) + 1;
  if (plan.first == 0) {
    return false;
  }
  unsigned long long number = plan.kind == CALL_KINDS ? of_any : plan.kind == kind ? of_kind : 0;
  if (number < plan.first || number > plan.last) {
    return false;
  }
  atomic_fetch_add(&failures, 1);
  errno = kind == CALL_madvise ? EAGAIN : ENOMEM;
  return true;
}

bool inject_fails(const char *kind) {
  return must_fail(kind_of(kind, strlen(kind)));
}

void inject_stop(void) {
  atomic_store(&stopped, true);
}

uint64_t inject_calls(const char *kind) {
  return atomic_load(&calls[kind_of(kind, strlen(kind))]);
}

uint64_t inject_failures(void) {
  return atomic_load(&failures);
}

/* The names are the linker's: --wrap=f sends calls of f to __wrap_f and offers the original as __real_f. */
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
int __real_munmap(void *at, size_t bytes);
int __real_madvise(void *at, size_t bytes, int advice);
void *__real_mremap(void *at, size_t bytes, size_t new_bytes, int flags, void *to);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_madvise(void *at, size_t bytes, int advice);
void *__wrap_mremap(void *at, size_t bytes, size_t new_bytes, int flags, void *to);
long __real_hak_direct_call(long number, const long argument[6]);
long __wrap_hak_direct_call(long number, const long argument[6]);

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  return must_fail(CALL_mmap) ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, file, offset);
}

int __wrap_munmap(void *at, size_t bytes) {
  return must_fail(CALL_munmap) ? -1 : __real_munmap(at, bytes);
}

int __wrap_madvise(void *at, size_t bytes, int advice) {
  return must_fail(CALL_madvise) ? -1 : __real_madvise(at, bytes, advice);
}

/* System calls that go through no function of libc. */
long __wrap_hak_direct_call(long number, const long argument[6]) {
  static const struct {
    long number;
    int kind, error;
  } direct[] = {{SYS_mmap, CALL_mmap, ENOMEM},       {SYS_munmap, CALL_munmap, ENOMEM},
                {SYS_madvise, CALL_madvise, EAGAIN}, {SYS_mprotect, CALL_mprotect, ENOMEM},
                {SYS_prctl, CALL_prctl, ENOMEM},     {SYS_openat, CALL_openat, EMFILE},
                {SYS_read, CALL_read, EIO},          {SYS_pread64, CALL_pread64, EIO},
                {SYS_write, CALL_write, ENOSPC},     {SYS_mincore, CALL_mincore, ENOMEM},
                {SYS_mremap, CALL_mremap, ENOMEM}};
  for (size_t i = 0; i < sizeof direct / sizeof *direct; i++) {
    if (direct[i].number == number && must_fail(direct[i].kind)) {
      return -direct[i].error;
    }
  }
  return __real_hak_direct_call(number, argument);
}

/* Callers pass `to` only with MREMAP_FIXED; without, the kernel ignores it. */
void *__wrap_mremap(void *at, size_t bytes, size_t new_bytes, int flags, void *to) {
  return must_fail(CALL_mremap) ? MAP_FAILED : __real_mremap(at, bytes, new_bytes, flags, to);
}
