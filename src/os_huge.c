/* Huge pages, and whether the kernel may be asked about them. */
#include "direct.h"
#include "os.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SETTINGS "/sys/kernel/mm/transparent_hugepage/"

/* A sandbox may end the process at any advice that glibc's malloc does not give. Whether there is a filter can be read
 * at start, when all that a dynamic linker calls is allowed. A later one announces itself by prctl, which this library
 * stands before; what else would tell is a call that may be the one that kills. */
static _Atomic bool filtered, known;
static _Atomic uint8_t mode;

bool hak_os_is_filtered(void) {
  return atomic_load_explicit(&filtered, memory_order_relaxed);
}

void hak_os_expect_filter(void) {
  atomic_store_explicit(&filtered, true, memory_order_relaxed);
}

/* The file has a line "Seccomp:" with the mode, 0 if there is no filter. Where it cannot be read, there may be one. */
static bool has_filter_now(void) {
  static const char label[] = "\nSeccomp:\t";
  char part[512];
  size_t matched = 0;
  long fd = hak_direct(SYS_openat, AT_FDCWD, (long)"/proc/self/status", O_RDONLY | O_CLOEXEC), got = fd, found = -1;
  while (got >= 0 && found < 0 && (got = hak_direct(SYS_read, fd, (long)part, sizeof part)) > 0) {
    for (long i = 0; i < got && found < 0; i++) {
      if (matched == sizeof label - 1) {
        found = part[i];
      }
      matched = part[i] == label[matched] ? matched + 1 : part[i] == label[0];
    }
  }
  if (fd >= 0) {
    hak_direct(SYS_close, fd);
  }
  return found != '0';
}

hak_os_huge_t hak_os_huge_mode(void) {
  if (HAK_UNLIKELY(!atomic_load_explicit(&known, memory_order_acquire))) { /* several threads find the same */
    char text[64];
    hak_direct_read(SETTINGS "enabled", text, sizeof text);
    hak_os_huge_t found = strstr(text, "[always]")    ? HAK_OS_HUGE_ALWAYS
                          : strstr(text, "[madvise]") ? HAK_OS_HUGE_ADVISED
                                                      : HAK_OS_HUGE_NEVER;
    atomic_store_explicit(&mode, (uint8_t)found, memory_order_relaxed);
    if ((found != HAK_OS_HUGE_NEVER || hak_os_offers_medium_pages()) && has_filter_now()) {
      hak_os_expect_filter();
    }
    atomic_store_explicit(&known, true, memory_order_release);
  }
  return (hak_os_huge_t)atomic_load_explicit(&mode, memory_order_relaxed);
}

bool hak_os_set_huge(void *at, size_t bytes, bool wanted) {
  hak_os_huge_mode(); /* and whether there is a filter */
  if (hak_os_is_filtered()) {
    return false;
  }
  return hak_os_advise_quietly(at, bytes, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void hak_os_decline_huge(void *at, size_t bytes) {
  if (hak_os_huge_mode() == HAK_OS_HUGE_ALWAYS) {
    hak_os_set_huge(at, bytes, false);
  }
}

bool hak_os_offers_medium_pages(void) {
  char text[64];
  return hak_direct_read(SETTINGS "hugepages-64kB/enabled", text, sizeof text) > 0 && !strstr(text, "[never]");
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
