/* Copy and zero large blocks without touching pages of zeros. realloc and calloc call it. */
#include "sparse.h"

#include "os.h"

#include <errno.h>
#include <string.h>

enum { VECTORS = 8, STEP = 4 * VECTORS * sizeof(hak_wide_vector_t) };

/* Whole steps. Within a step the vectors are only joined, since a test of a vector takes as long as eight loads. */
HAK_WIDE static bool is_zero_wide(const char *from, size_t bytes) {
  for (const char *end = from + bytes; from < end;) {
    hak_wide_vector_t any = {0}, more = any;
    for (const char *stop = from + STEP; from < stop; from += VECTORS * sizeof any) {
      const hak_wide_vector_t *part = (const void *)from;
      any |= (part[0] | part[1]) | (part[2] | part[3]);
      more |= (part[4] | part[5]) | (part[6] | part[7]);
    }
    any |= more;
    if ((any[0] | any[1]) | (any[2] | any[3])) {
      return false;
    }
  }
  return true;
}

bool hak_sparse_is_zero(const void *at, size_t bytes) {
  const char *from = at;
  size_t before = -(uintptr_t)at & (sizeof(hak_wide_vector_t) - 1);
  if (bytes < before + STEP || !HAK_HAS_WIDE) {
    return hak_is_zero(at, bytes);
  }
  size_t whole = (bytes - before) / STEP * STEP, behind = before + whole;
  return hak_is_zero(from, before) && is_zero_wide(from + before, whole) && hak_is_zero(from + behind, bytes - behind);
}

void hak_sparse_copy(void *to, const void *from, size_t bytes, bool zeroed) {
  size_t page = hak_os_page_bytes(), done = 0;
  for (size_t part, at = 0; at < bytes; at += part) {
    part = bytes - at < page ? bytes - at : page;
    if (hak_sparse_is_zero((const char *)from + at, part)) {
      memcpy((char *)to + done, (const char *)from + done, at - done);
      done = at + part;
      if (!zeroed && !hak_sparse_is_zero((char *)to + at, part)) {
        memset((char *)to + at, 0, part);
      }
    }
  }
  memcpy((char *)to + done, (const char *)from + done, bytes - done);
}

void hak_sparse_zero(void *at, size_t bytes) {
  enum { DROPPED_FROM = 32 << 20 };
  size_t page = hak_os_page_bytes(), whole = bytes / page * page;
  int saved = errno;
  if (bytes >= DROPPED_FROM && hak_os_discard(at, whole)) {
    at = (char *)at + whole;
    bytes -= whole;
  }
  errno = saved;
  for (size_t part, done = 0; done < bytes; done += part) {
    part = bytes - done < page ? bytes - done : page;
    if (!hak_sparse_is_zero((char *)at + done, part)) {
      memset((char *)at + done, 0, part);
    }
  }
}
