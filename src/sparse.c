#include "sparse.h"

#include "os.h"

#include <string.h>

enum { SAMPLES = 5, SPARSE_MIN = 512 << 10 };

/* A page that was never touched is read without becoming resident. By words, and not by memcmp: others define that
 * name, and this is asked in the middle of changes. */
static bool is_zero(const char *at, size_t bytes) {
  size_t done = 0;
  for (uint64_t words[8]; bytes - done >= sizeof words; done += sizeof words) {
    __builtin_memcpy(words, at + done, sizeof words);
    if (words[0] | words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7]) {
      return false;
    }
  }
  for (; done < bytes && at[done] == 0; done++) {
  }
  return done == bytes;
}

void hak_sparse_copy(void *to, const void *from, size_t bytes, bool zeroed) {
  size_t page = hak_os_page_bytes(), done = 0;
  for (size_t part, at = 0; at < bytes; at += part) {
    part = bytes - at < page ? bytes - at : page;
    if (is_zero((const char *)from + at, part)) {
      memcpy((char *)to + done, (const char *)from + done, at - done);
      done = at + part;
      if (!zeroed && !is_zero((char *)to + at, part)) {
        memset((char *)to + at, 0, part);
      }
    }
  }
  memcpy((char *)to + done, (const char *)from + done, bytes - done);
}

bool hak_sparse_is(const char *at, size_t bytes) {
  size_t page = hak_os_page_bytes(), pages = bytes / page, count[2] = {0, 0};
  for (size_t i = 0; count[0] <= SAMPLES / 2 && count[1] <= SAMPLES / 2; i++) {
    count[is_zero(at + pages * (2 * i + 1) / (2 * SAMPLES) * page, page)]++;
  }
  return count[1] > SAMPLES / 2;
}

void hak_sparse_zero(void *at, size_t bytes) {
  size_t page = hak_os_page_bytes(), head = -(uintptr_t)at & (page - 1), whole = bytes & ~(page - 1);
  if (bytes < SPARSE_MIN || head > 0 || !hak_sparse_is(at, bytes) || !hak_os_discard(at, whole)) {
    whole = 0;
  }
  memset((char *)at + whole, 0, bytes - whole);
}
