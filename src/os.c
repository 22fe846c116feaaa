#include "os.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
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
    bytes = (size_t)getauxval(AT_PAGESZ);
    bytes = bytes ? bytes : 4096;
    atomic_store_explicit(&page_bytes, bytes, memory_order_relaxed);
  }
  return bytes;
}

static void *map(void *at, size_t bytes, int protection, int flags) {
  count(&counters.mmap, 1);
  void *p = mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (!succeeded(p != MAP_FAILED)) {
    return NULL;
  }
  count(&counters.bytes_mapped_total, bytes);
  return p;
}

static _Atomic bool names; /* as an option says; not for want of names in the kernel */

void hak_os_name_mappings(bool wanted) {
  atomic_store_explicit(&names, wanted, memory_order_relaxed);
}

/* What fails leaves the mapping as it is. Takes NULL. */
static void *named(void *at, size_t bytes) {
  if (at && atomic_load_explicit(&names, memory_order_relaxed) &&
      prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, bytes, "hakmem") != 0) {
    hak_os_name_mappings(false);
  }
  return at;
}

void *hak_os_map(void *wish, size_t bytes) {
  return named(map(wish, bytes, PROT_READ | PROT_WRITE, 0), bytes);
}

void *hak_os_reserve(size_t bytes) {
  return named(map(NULL, bytes, PROT_NONE, MAP_NORESERVE), bytes);
}

void *hak_os_map_readonly(size_t bytes) {
  return named(map(NULL, bytes, PROT_READ, MAP_NORESERVE), bytes);
}

bool hak_os_make_writable(void *at, size_t bytes) {
  count(&counters.mprotect, 1);
  return succeeded(mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0) ||
         map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED) == at;
}

/* Not readable, nor writable: for a wide alignment the memory must not be asked for beside it, for the kernel might
 * refuse so much. */
void *hak_os_find_gap(size_t bytes, size_t align) {
  size_t wide = bytes + align - hak_os_page_bytes();
  char *found = wide > bytes ? map(NULL, wide, PROT_NONE, MAP_NORESERVE) : NULL;
  if (!found) {
    return NULL;
  }
  hak_os_unmap(found, wide);
  return found + (-(uintptr_t)found & (align - 1));
}

/* Where the kernel chooses, and what is too much of it is unmapped again. */
static void *map_and_trim(size_t bytes, size_t align) {
  size_t wide = bytes + align - hak_os_page_bytes();
  char *found = map(NULL, wide, PROT_READ | PROT_WRITE, 0);
  size_t before = -(uintptr_t)found & (align - 1), behind = wide - before - bytes;
  if (found && before) {
    hak_os_unmap(found, before);
  }
  if (found && behind) {
    hak_os_unmap(found + before + bytes, behind);
  }
  return found ? named(found + before, bytes) : NULL;
}

void *hak_os_map_aligned(void *wish, size_t bytes, size_t align) {
  int tries = 4; /* others may map there meanwhile, or the kernel does not care for wishes */
  do {
    char *p = map(wish, bytes, PROT_READ | PROT_WRITE, 0);
    if (!p || ((uintptr_t)p & (align - 1)) == 0) {
      return named(p, bytes);
    }
    hak_os_unmap(p, bytes);
    wish = hak_os_find_gap(bytes, align);
  } while (wish && --tries > 0);
  return wish ? map_and_trim(bytes, align) : NULL;
}

hak_os_map_result_t hak_os_map_at(void *at, size_t bytes) {
  void *p = map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
  if (p == at) {
    return HAK_OS_MAPPED;
  }
  if (!p) {
    return errno == EEXIST ? HAK_OS_OCCUPIED : HAK_OS_NO_MEMORY;
  }
  hak_os_unmap(p, bytes); /* a kernel before 4.17 took the address as a hint */
  return HAK_OS_OCCUPIED;
}

bool hak_os_make_ordinary(void *at, size_t bytes, uint32_t ways) {
  bool ok = true;
  if (ways & (HAK_OS_PROTECTED | HAK_OS_KEYED)) {
    count(&counters.mprotect, 1);
    ok = (ways & HAK_OS_KEYED && syscall(SYS_pkey_mprotect, at, bytes, PROT_READ | PROT_WRITE, 0) == 0) ||
         mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
  }
  if (ways & HAK_OS_GUARDED) {
    count(&counters.madvise, 1);
    madvise(at, bytes, MADV_GUARD_REMOVE);
  }
  if (ways & HAK_OS_UNFORKED) {
    count(&counters.madvise, 2);
    madvise(at, bytes, MADV_KEEPONFORK); /* older kernels know neither this nor what it undoes */
    ok = madvise(at, bytes, MADV_DOFORK) == 0 && ok;
  }
  return ok || succeeded(hak_os_map_at(at, bytes) == HAK_OS_MAPPED); /* in the child of a fork */
}

bool hak_os_unmap(void *at, size_t bytes) {
  count(&counters.munmap, 1);
  return succeeded(munmap(at, bytes) == 0);
}

bool hak_os_discard(void *at, size_t bytes) {
  count(&counters.madvise, 1);
  return succeeded(madvise(at, bytes, MADV_DONTNEED) == 0 ||
                   (errno == EINVAL && madvise(at, bytes, MADV_DONTNEED_LOCKED) == 0));
}

bool hak_os_is_locked(void *page) {
  return madvise(page, hak_os_page_bytes(), MADV_DONTNEED) != 0 && errno == EINVAL;
}

bool hak_os_set_huge(void *at, size_t bytes, bool wanted) {
  count(&counters.madvise, 1);
  return succeeded(madvise(at, bytes, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
}

bool hak_os_residency(void *at, size_t bytes, unsigned char *resident) {
  if (mincore(at, bytes, resident) == 0) {
    return true;
  }
  memset(resident, 0, (bytes + hak_os_page_bytes() - 1) / hak_os_page_bytes());
  return false;
}

bool hak_os_offers_medium_pages(void) {
  char text[64];
  int saved = errno;
  int fd = open("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", O_RDONLY | O_CLOEXEC);
  ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  if (fd >= 0) {
    close(fd);
  }
  errno = saved;
  text[length > 0 ? length : 0] = '\0';
  return length > 0 && !strstr(text, "[never]");
}

size_t hak_os_fault_bytes(void *at, size_t bytes) {
  unsigned char resident[512];
  size_t page = hak_os_page_bytes(), pages = bytes / page, count = 0;
  volatile char *middle = (char *)at + bytes / 2;
  pages = pages < sizeof resident ? pages : sizeof resident;
  *middle = 0;
  hak_os_residency(at, pages * page, resident);
  for (size_t i = 0; i < pages; i++) {
    count += resident[i] & 1U;
  }
  return count * page;
}

/* Never to a place of our choice: for that the kernel unmaps what is there, and of several mappings it may move the
 * first and then fail. */
void *hak_os_lengthen(void *at, size_t bytes, size_t wanted, bool may_move) {
  count(&counters.mremap, 1);
  void *found = mremap(at, bytes, wanted, may_move ? MREMAP_MAYMOVE : 0);
  return succeeded(found != MAP_FAILED) ? found : NULL;
}

/* The kernel unmaps what is there first, so it may be gone after a failure. */
bool hak_os_move(void *from, void *to, size_t bytes, bool *lost) {
  count(&counters.mremap, 1);
  bool ok = succeeded(mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
  *lost = !ok && !hak_os_discard(to, bytes) && hak_os_map_at(to, bytes) == HAK_OS_NO_MEMORY;
  return ok;
}

static uint64_t read_clock(clockid_t clock) {
  struct timespec now = {0, 0};
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t hak_os_now_ms(void) {
  return read_clock(CLOCK_MONOTONIC_COARSE) / 1000000;
}

uint64_t hak_os_now_ns(void) {
  return read_clock(CLOCK_MONOTONIC);
}

uint64_t hak_os_wall_ns(void) {
  return read_clock(CLOCK_REALTIME);
}

/* Not AT_RANDOM: its bytes are libc's stack and pointer guards. */
static uint64_t weak_random(void) {
  static _Atomic uint64_t calls;
  uint64_t bits = 0x9e3779b97f4a7c15U, call = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
  uint64_t parts[] = {hak_os_now_ns(), (uintptr_t)&bits, (uintptr_t)&counters, call};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) { /* the folded product cannot be turned back */
    unsigned __int128 product = (unsigned __int128)(bits ^ parts[i]) * 0xd6e8feb86659fd93U;
    bits = (uint64_t)product ^ (uint64_t)(product >> 64);
  }
  return bits;
}

uint64_t hak_os_random(void) {
  uint64_t bits = 0;
  long got = syscall(SYS_getrandom, &bits, sizeof bits, 1 /* GRND_NONBLOCK */);
  return got == (long)sizeof bits ? bits : weak_random();
}

/* A thread that was woken may run a signal handler first, which waits for one that sleeps here: so none sleeps for
 * ever. */
void hak_os_wait(_Atomic uint32_t *word, uint32_t value) {
  const struct timespec longest = {.tv_nsec = 20 * 1000 * 1000};
  syscall(SYS_futex, word, 128 /* FUTEX_WAIT_PRIVATE */, value, &longest, NULL, 0);
}

void hak_os_wake(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, 129 /* FUTEX_WAKE_PRIVATE */, 1, NULL, NULL, 0);
}

uint64_t hak_os_block_signals(void) {
  uint64_t all = ~((uint64_t)3 << 31), before = 0; /* but libc's own, which it sends to threads and waits for */
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof all);
  return before;
}

void hak_os_set_blocked_signals(uint64_t blocked) {
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, sizeof blocked);
}

void hak_os_yield(void) {
  static const struct timespec moment = {0, 20000};
  uint32_t word = 0;
  syscall(SYS_futex, &word, 128 /* FUTEX_WAIT_PRIVATE */, 0, &moment, NULL, 0);
}

/* libc keeps it for debuggers in what pthread_self() points to, and says where: bits, how many, bytes from the start.
 */
uint32_t hak_os_thread_id(void) {
  static _Atomic uint32_t place; /* 0: not asked yet */
  if (place == 0) {
    const uint32_t *field = dlsym(RTLD_DEFAULT, "_thread_db_pthread_tid");
    place = field && field[0] == 32 ? field[2] : UINT32_MAX;
    if (!field) {
      dlerror(); /* the program's own errors are told by it */
    }
  }
  return place != UINT32_MAX ? *(const uint32_t *)((uintptr_t)pthread_self() + place) : 0;
}

bool hak_os_secure_mode(void) {
  return getauxval(AT_SECURE) != 0;
}

/* By system call: the function is a cancellation point, and would end a thread that reports a misuse. */
int hak_os_write(int fd, const void *bytes, size_t count) {
  for (const char *from = bytes; count > 0;) {
    long n = syscall(SYS_write, fd, from, count);
    if (n > 0) {
      from += n;
      count -= (size_t)n;
    } else if (n == 0 || errno != EINTR) {
      return n == 0 ? EIO : errno;
    }
  }
  return 0;
}

void hak_os_read_counts(hak_os_counts_t *counts) {
  for (size_t i = 0; i < sizeof counters / sizeof(uint64_t); i++) {
    ((uint64_t *)counts)[i] = __atomic_load_n((uint64_t *)&counters + i, __ATOMIC_RELAXED);
  }
}
