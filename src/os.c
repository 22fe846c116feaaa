#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum { KEPT_FD_MIN = 100 }; /* out of the way of programs that count on low numbers */

static struct {
  _Atomic uint64_t mmap, munmap, madvise, mprotect, mremap, failed, bytes_mapped_total;
} counters;

static void count(_Atomic uint64_t *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
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
    if (bytes == 0) {
      bytes = 4096;
    }
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

void *hak_os_map(size_t bytes) {
  return map(NULL, bytes, PROT_READ | PROT_WRITE, 0);
}

void *hak_os_map_readonly(size_t bytes) {
  return map(NULL, bytes, PROT_READ, MAP_NORESERVE);
}

bool hak_os_make_writable(void *at, size_t bytes) {
  count(&counters.mprotect, 1);
  return succeeded(mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0);
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

char *hak_os_probe(void) {
  size_t bytes = hak_os_page_bytes();
  char *p = map(NULL, bytes, PROT_NONE, MAP_NORESERVE);
  if (p) {
    hak_os_unmap(p, bytes);
  }
  return p;
}

bool hak_os_unmap(void *at, size_t bytes) {
  count(&counters.munmap, 1);
  return succeeded(munmap(at, bytes) == 0);
}

bool hak_os_discard(void *at, size_t bytes) {
  count(&counters.madvise, 1);
  return succeeded(madvise(at, bytes, MADV_DONTNEED) == 0);
}

bool hak_os_prefer_huge(void *at, size_t bytes) {
  count(&counters.madvise, 1);
  return succeeded(madvise(at, bytes, MADV_HUGEPAGE) == 0);
}

static bool move_pages(void *from, void *to, size_t bytes) {
  count(&counters.mremap, 1);
  return succeeded(mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to);
}

/* Kernels before 5.7 refuse; qemu-user (7.2) moves, but takes the source for unmapped from then on. */
static bool moving_works(void) {
  static _Atomic bool known, works;
  if (known) {
    return works;
  }
  size_t page = hak_os_page_bytes();
  volatile char *from = hak_os_map(page), *to = hak_os_map(page);
  if (from && to) {
    unsigned char resident;
    *from = 1;
    works = move_pages((void *)from, (void *)to, page) && mincore((void *)from, page, &resident) == 0 && *to == 1 &&
            *from == 0 && hak_os_discard((void *)to, page) && *to == 0;
    known = true;
  }
  if (from) {
    hak_os_unmap((void *)from, page);
  }
  if (to) {
    hak_os_unmap((void *)to, page);
  }
  return works;
}

hak_os_move_result_t hak_os_move(void *from, void *to, size_t bytes) {
  if (!moving_works()) {
    return HAK_OS_NOT_MOVED;
  }
  if (move_pages(from, to, bytes)) {
    return HAK_OS_MOVED;
  }
  /* The kernel may have unmapped the target before it found out, as for a source of several mappings before 6.17. */
  return hak_os_map_at(to, bytes) != HAK_OS_NO_MEMORY ? HAK_OS_NOT_MOVED : HAK_OS_TARGET_LOST;
}

uint64_t hak_os_now_ms(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0) {
    return 0;
  }
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

size_t hak_os_address_space_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return SIZE_MAX;
  }
  return (size_t)limit.rlim_cur;
}

uint64_t hak_os_random(void) {
  struct timespec now = {0, 0};
  uint64_t bits = 0;
  const unsigned char *seed = (const unsigned char *)getauxval(AT_RANDOM); /* 16 bytes, set by the kernel */
  for (int i = 0; seed && i < 8; i++) {
    bits = bits << 8 | seed[i];
  }
  clock_gettime(CLOCK_MONOTONIC, &now);
  bits ^= (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
  bits ^= bits >> 31;
  return bits * 0x9e3779b97f4a7c15U;
}

bool hak_os_secure_mode(void) {
  return getauxval(AT_SECURE) != 0;
}

static int kept_stderr = -1;

void hak_os_keep_stderr(void) {
  int saved = errno;
  kept_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, KEPT_FD_MIN);
  errno = saved;
}

void hak_os_write_error(const char *text, size_t length) {
  int saved = errno;
  int out = kept_stderr >= 0 ? kept_stderr : STDERR_FILENO;
  while (length > 0) {
    ssize_t n = write(out, text, length);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    text += n;
    length -= (size_t)n;
  }
  errno = saved;
}

void hak_os_read_counts(hak_os_counts_t *counts) {
  counts->mmap = atomic_load_explicit(&counters.mmap, memory_order_relaxed);
  counts->munmap = atomic_load_explicit(&counters.munmap, memory_order_relaxed);
  counts->madvise = atomic_load_explicit(&counters.madvise, memory_order_relaxed);
  counts->mprotect = atomic_load_explicit(&counters.mprotect, memory_order_relaxed);
  counts->mremap = atomic_load_explicit(&counters.mremap, memory_order_relaxed);
  counts->failed = atomic_load_explicit(&counters.failed, memory_order_relaxed);
  counts->bytes_mapped_total = atomic_load_explicit(&counters.bytes_mapped_total, memory_order_relaxed);
}
