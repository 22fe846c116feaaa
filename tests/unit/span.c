/* The last block of the longest span: memory of the program of 64 GiB. Only its bits are there. */
#include "check.h"
#include "regions/regions.h"

#include <sys/mman.h>

int main(void) {
  size_t bytes = ((size_t)UINT32_MAX + 63) / 64 * sizeof(hak_span_bits_t), page = 4096;
  char *bits = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(bits != MAP_FAILED && mprotect(bits + bytes, page, PROT_NONE) == 0);
  static char base[16];
  hak_piece_t span = {.base = base, .is_span = true, .bits = (hak_span_bits_t *)(void *)bits};
  uint32_t last = UINT32_MAX - 1;
  hak_span_format(&span, 0, UINT32_MAX);
  span.at = UINT32_MAX;
  span.bits[last / 64] = (hak_span_bits_t){.start = (uint64_t)1 << last % 64, .used = (uint64_t)1 << last % 64};
  uintptr_t block = (uintptr_t)base + ((size_t)last << HAK_BLOCK_SHIFT);
  CHECK(hak_span_usable(&span, (void *)block, "free") == HAK_BLOCK_MIN); /* NOLINT(performance-no-int-to-ptr) */
  return 0;
}
