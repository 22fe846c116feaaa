/* Every system call about memory. Calls that take memory away use libc's names, so that other libraries see them. */
#include "os.h"

#include "direct.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_GUARD_REMOVE
#define MADV_GUARD_REMOVE 103
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

static hak_os_counts_t counters;

/* NOLINTNEXTLINE(readability-non-const-parameter): counted up */
static void count(uint64_t *counter, uint64_t n) {
  __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static bool succeeded(bool ok) {
  if (!ok) {
    count(&counters.failed, 1);
  }
  return ok;
}

size_t hak_os_page_bytes(void) {
  static _Atomic size_t page_bytes;
  size_t bytes = atomic_load_explicit(&page_bytes, memory_order_relaxed);
  if (HAK_UNLIKELY(bytes == 0)) {
    bytes = (size_t)hak_auxiliary(AT_PAGESZ);
    bytes = bytes ? bytes : 4096;
    atomic_store_explicit(&page_bytes, bytes, memory_order_relaxed);
  }
  return bytes;
}

/* Other libraries watch mappings and, above all, their removal. They define functions under libc's names, or patch the
 * code of libc's. So these calls go through the names, with no lock held. Such a function may allocate and free. It
 * then does so like a thread without a heap, because the thread's own heap may be in the middle of a change. If such a
 * function makes the heap call the system again, the nested call bypasses the watchers if the memory was unused.
 * Otherwise the nested call fails, and later purging announces the memory. */
static _Thread_local bool calling __attribute__((tls_model("initial-exec")));

bool hak_os_is_calling(void) {
  return calling;
}

static bool enter(hak_aside_t *aside) {
  bool outermost = !calling && !hak_direct_is_confined();
  if (outermost) {
    hak_hook_heap.step_aside(aside);
    calling = true;
  }
  return outermost;
}

static void leave(const hak_aside_t *aside) {
  calling = false;
  hak_hook_heap.step_back(aside);
}

static void *map(void *at, size_t bytes, int protection, int flags) {
  hak_aside_t aside;
  count(&counters.mmap, 1);
  flags |= MAP_PRIVATE | MAP_ANONYMOUS;
  void *p = NULL;
  if (enter(&aside)) {
    p = mmap(at, bytes, protection, flags, -1, 0);
    leave(&aside);
  } else {
    long found = hak_direct_errno(hak_direct(SYS_mmap, (long)at, (long)bytes, protection, flags, -1));
    p = (void *)found; /* NOLINT(performance-no-int-to-ptr) */
  }
  if (!succeeded(p != MAP_FAILED)) {
    return NULL;
  }
  count(&counters.bytes_mapped_total, bytes);
  return p;
}

/* A sandbox may kill the process for advice that glibc's malloc never gives. This library intercepts the calls that set
 * a filter; any other test might itself be the fatal call. Filters that exist at start do not count: they let whole
 * programs start, and the common ones (containers, services) do not check advice. If they counted, each small program
 * in a container would get a 2 MiB page. */
static _Atomic bool filtered, strict;

bool hak_os_is_filtered(void) {
  return atomic_load_explicit(&filtered, memory_order_relaxed);
}

static _Atomic bool names HAK_START_DATA; /* set by an option; the kernel may still lack names */

void hak_os_name_mappings(bool wanted) {
  atomic_store_explicit(&names, wanted, memory_order_relaxed);
}

bool hak_os_is_strict(void) {
  return HAK_UNLIKELY(atomic_load_explicit(&strict, memory_order_relaxed));
}

void hak_os_expect_filter(bool is_strict) {
  atomic_store_explicit(&filtered, true, memory_order_relaxed);
  atomic_store_explicit(&strict, is_strict, memory_order_relaxed);
  hak_os_name_mappings(false);
}

/* Name a mapping; failure leaves it as it is. Accepts NULL. */
static void *named(void *at, size_t bytes) {
  if (at && atomic_load_explicit(&names, memory_order_relaxed) &&
      hak_direct(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, (long)at, (long)bytes, (long)"hakmem") != 0) {
    hak_os_name_mappings(false);
  }
  return at;
}

void *hak_os_map(void *hint, size_t bytes) {
  return named(map(hint, bytes, PROT_READ | PROT_WRITE, 0), bytes);
}

void *hak_os_reserve(size_t bytes) {
  return named(map(NULL, bytes, PROT_NONE, 0), bytes);
}

bool hak_os_withdraw(void *at, size_t bytes) {
  return named(map(at, bytes, PROT_NONE, MAP_NORESERVE | MAP_FIXED), bytes) != NULL;
}

void *hak_os_map_readonly(size_t bytes) {
  return named(map(NULL, bytes, PROT_READ, MAP_NORESERVE), bytes);
}

static bool protect(void *at, size_t bytes, long protection) {
  return hak_direct_errno(hak_direct(SYS_mprotect, (long)at, (long)bytes, protection)) == 0;
}

static bool map_anew(void *at, size_t bytes) {
  const long access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  count(&counters.mmap, 1);
  return succeeded(hak_direct_errno(hak_direct(SYS_mmap, (long)at, (long)bytes, access, flags, -1)) == (long)at);
}

/* Uses direct system calls, since another thread may wait for the result. The pages lose no content. */
bool hak_os_make_writable(void *at, size_t bytes) {
  count(&counters.mprotect, 1);
  return succeeded(protect(at, bytes, PROT_READ | PROT_WRITE)) || map_anew(at, bytes);
}

bool hak_os_close(void *at, size_t bytes) {
  count(&counters.mprotect, 1);
  return protect(at, bytes, PROT_NONE);
}

bool hak_os_guard(void *at, size_t bytes) {
  static _Atomic bool works, fails;
  bool guarded = !fails && !hak_os_is_filtered() && hak_os_advise_quietly(at, bytes, MADV_GUARD_INSTALL);
  if (guarded && !works) { /* an emulator may report success for advice that it does not know */
    guarded = works = !hak_os_is_readable((uintptr_t)at);
    fails = !works;
  }
  return guarded;
}

bool hak_os_unguard(void *at, size_t bytes) {
  return (!hak_os_is_filtered() && hak_os_advise_quietly(at, bytes, MADV_GUARD_REMOVE)) || map_anew(at, bytes);
}

bool hak_os_seal(void *at, size_t bytes) {
  enum { MSEAL = 462 }; /* Linux 6.10; older headers do not name it */
  count(&counters.mprotect, 1);
  bool sealed = protect(at, bytes, PROT_READ);
  if (sealed) {
    hak_direct(MSEAL, (long)at, (long)bytes, 0);
  }
  return sealed;
}

/* Reserve without access: the kernel might refuse readable memory of that size beside the block. */
void *hak_os_find_gap(size_t bytes, size_t align) {
  size_t wide = bytes + align - hak_os_page_bytes();
  char *found = wide > bytes ? map(NULL, wide, PROT_NONE, MAP_NORESERVE) : NULL;
  if (!found) {
    return NULL;
  }
  hak_os_unmap_unused(found, wide);
  return found + (-(uintptr_t)found & (align - 1));
}

/* Map where the kernel chooses, and unmap the excess. */
static void *map_and_trim(size_t bytes, size_t align) {
  size_t wide = bytes + align - hak_os_page_bytes();
  char *found = map(NULL, wide, PROT_READ | PROT_WRITE, 0);
  size_t before = -(uintptr_t)found & (align - 1), behind = wide - before - bytes;
  if (found && before) {
    hak_os_unmap_unused(found, before);
  }
  if (found && behind) {
    hak_os_unmap_unused(found + before + bytes, behind);
  }
  return found ? named(found + before, bytes) : NULL;
}

void *hak_os_map_aligned(void *hint, size_t bytes, size_t align) {
  int tries = 4; /* other threads may map there, or the kernel may ignore hints */
  do {
    char *p = map(hint, bytes, PROT_READ | PROT_WRITE, 0);
    if (!p || ((uintptr_t)p & (align - 1)) == 0) {
      return named(p, bytes);
    }
    hak_os_unmap_unused(p, bytes);
    hint = hak_os_find_gap(bytes, align);
  } while (hint && --tries > 0);
  return hint ? map_and_trim(bytes, align) : NULL;
}

hak_os_map_result_t hak_os_map_at(void *at, size_t bytes) {
  void *p = map(at, bytes, PROT_READ | PROT_WRITE, hak_os_is_filtered() ? 0 : MAP_FIXED_NOREPLACE);
  if (p == at) {
    return HAK_OS_MAPPED;
  }
  if (!p) {
    return errno == EEXIST ? HAK_OS_OCCUPIED : HAK_OS_NO_MEMORY;
  }
  hak_os_unmap_unused(p, bytes); /* without the flag, or before Linux 4.17, the address is a hint */
  return HAK_OS_OCCUPIED;
}

bool hak_os_make_ordinary(void *at, size_t bytes, uint32_t ways) {
  bool ok = true;
  if (ways & (HAK_OS_PROTECTED | HAK_OS_KEYED)) {
    count(&counters.mprotect, 1);
    ok = (ways & HAK_OS_KEYED && hak_direct(SYS_pkey_mprotect, (long)at, (long)bytes, PROT_READ | PROT_WRITE) == 0) ||
         protect(at, bytes, PROT_READ | PROT_WRITE);
  }
  if (ways & HAK_OS_GUARDED) {
    count(&counters.madvise, 1);
    hak_direct(SYS_madvise, (long)at, (long)bytes, MADV_GUARD_REMOVE);
  }
  if (ways & HAK_OS_UNFORKED) {
    count(&counters.madvise, 2);
    hak_direct(SYS_madvise, (long)at, (long)bytes,
               MADV_KEEPONFORK); /* older kernels know neither this nor its opposite */
    ok = hak_direct(SYS_madvise, (long)at, (long)bytes, MADV_DOFORK) == 0 && ok;
  }
  return ok || succeeded(hak_os_map_at(at, bytes) == HAK_OS_MAPPED); /* missing in the child of a fork */
}

static bool unmap(void *at, size_t bytes, bool unused) {
  hak_aside_t aside;
  bool ok = false;
  if (enter(&aside)) {
    ok = munmap(at, bytes) == 0;
    leave(&aside);
  } else if (unused) {
    ok = hak_direct_errno(hak_direct(SYS_munmap, (long)at, (long)bytes)) == 0;
  } else {
    errno = EAGAIN;
  }
  count(&counters.munmap, 1);
  return succeeded(ok);
}

bool hak_os_unmap(void *at, size_t bytes) {
  return unmap(at, bytes, false);
}

bool hak_os_unmap_unused(void *at, size_t bytes) {
  return unmap(at, bytes, true);
}

bool hak_os_discard(void *at, size_t bytes) {
  hak_aside_t aside;
  bool ok = false;
  if (enter(&aside)) {
    ok = hak_hook_heap.advise(at, bytes, MADV_DONTNEED) == 0;
    ok = ok || (errno == EINVAL && !hak_os_is_filtered() && hak_hook_heap.advise(at, bytes, MADV_DONTNEED_LOCKED) == 0);
    leave(&aside);
  } else {
    errno = EAGAIN;
  }
  count(&counters.madvise, 1);
  return succeeded(ok);
}

bool hak_os_advise_quietly(void *at, size_t bytes, int advice) {
  count(&counters.madvise, 1);
  return succeeded(hak_direct_errno(hak_direct(SYS_madvise, (long)at, (long)bytes, advice)) == 0);
}

bool hak_os_is_locked(void *page) {
  return hak_direct(SYS_madvise, (long)page, (long)hak_os_page_bytes(), MADV_DONTNEED) == -EINVAL;
}

bool hak_os_residency(void *at, size_t bytes, unsigned char *resident) {
  if (!hak_os_is_filtered() && hak_direct(SYS_mincore, (long)at, (long)bytes, (long)resident) == 0) {
    return true;
  }
  memset(resident, 0, (bytes + hak_os_page_bytes() - 1) / hak_os_page_bytes());
  return false;
}

static void *remap(void *from, size_t bytes, size_t wanted, int flags) {
  hak_aside_t aside;
  void *found = MAP_FAILED;
  count(&counters.mremap, 1);
  if (enter(&aside)) {
    found = mremap(from, bytes, wanted, flags);
    leave(&aside);
  } else {
    errno = EAGAIN;
  }
  return succeeded(found != MAP_FAILED) ? found : NULL;
}

/* Never move to a chosen place: the kernel would first unmap what is there. If the range is several mappings, it may
 * then move the first one and fail. */
void *hak_os_lengthen(void *at, size_t bytes, size_t wanted, bool may_move) {
  return remap(at, bytes, wanted, may_move ? MREMAP_MAYMOVE : 0);
}

/* UCX's mremap drops the last argument, and the kernel would move the pages to an arbitrary address. So a call that
 * leaves the pages in place announces them: the watchers take it for a move. A direct call then moves the pages. The
 * kernel unmaps the target first, so the target may be gone after a failure. */
bool hak_os_move(void *from, void *to, size_t bytes, bool *lost) {
  const long flags = MREMAP_MAYMOVE | MREMAP_FIXED, length = (long)bytes;
  *lost = false;
  if (remap(from, bytes, bytes, 0) != from) { /* without permission to move, which qemu would use */
    return false;
  }
  count(&counters.mremap, 1);
  bool ok =
      succeeded(hak_direct_errno(hak_direct(SYS_mremap, (long)from, length, length, flags, (long)to)) == (long)to);
  *lost = !ok && !hak_os_discard(to, bytes) && hak_os_map_at(to, bytes) == HAK_OS_NO_MEMORY;
  return ok;
}

/* By system call, since the function is a cancellation point and could end a thread that reports misuse. */
int hak_os_write(int fd, const void *bytes, size_t count) {
  for (const char *from = bytes; count > 0;) {
    long n = hak_direct(SYS_write, fd, (long)from, (long)count);
    if (n > 0) {
      from += n;
      count -= (size_t)n;
    } else if (n != -EINTR) {
      return n == 0 ? EIO : (int)-n;
    }
  }
  return 0;
}

void hak_os_read_counts(hak_os_counts_t *counts) {
  for (size_t i = 0; i < sizeof counters / sizeof(uint64_t); i++) {
    ((uint64_t *)counts)[i] = __atomic_load_n((uint64_t *)&counters + i, __ATOMIC_RELAXED);
  }
}
