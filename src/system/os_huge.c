/* Huge pages: what the kernel offers, and advice about them. */
#include "direct.h"
#include "options.h"
#include "os.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define SETTINGS "/sys/kernel/mm/transparent_hugepage/"

/* The first letter of a setting's value, which stands in brackets. 0: the file cannot be read. No function of libc is
 * called, since another library's function of that name may allocate, and the heap is in the middle of a change. */
static char chosen(const char *file) {
  char text[64];
  size_t length = hak_direct_read(file, text, sizeof text), at = 0;
  while (at < length && text[at] != '[') {
    at++;
  }
  return at < length ? text[at + 1] : '\0';
}

static _Atomic bool known;
static _Atomic uint8_t mode;

hak_os_huge_t hak_os_huge_mode(void) {
  if (hak_os_is_filtered()) {
    return HAK_OS_HUGE_NEVER;
  }
  if (HAK_UNLIKELY(!atomic_load_explicit(&known, memory_order_acquire))) { /* several threads find the same value */
    char letter = chosen(SETTINGS "enabled");
    hak_os_huge_t found = letter == 'a' ? HAK_OS_HUGE_ALWAYS : letter == 'm' ? HAK_OS_HUGE_ADVISED : HAK_OS_HUGE_NEVER;
    atomic_store_explicit(&mode, (uint8_t)found, memory_order_relaxed);
    atomic_store_explicit(&known, true, memory_order_release);
  }
  return (hak_os_huge_t)atomic_load_explicit(&mode, memory_order_relaxed);
}

bool hak_os_set_huge(void *at, size_t bytes, bool wanted) {
  if (hak_os_is_filtered()) {
    return false;
  }
  return hak_os_advise_quietly(at, bytes, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void hak_os_decline_huge(void *at, size_t bytes) {
  if (hak_option(HAK_OPTION_HUGE_PAGES) == HAK_HUGE_PAGES_OFF || hak_os_huge_mode() == HAK_OS_HUGE_ALWAYS) {
    hak_os_set_huge(at, bytes, false);
  }
}

bool hak_os_offers_mthp(void) {
  char letter = hak_os_is_filtered() ? '\0' : chosen(SETTINGS "hugepages-64kB/enabled");
  return letter != '\0' && letter != 'n';
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
