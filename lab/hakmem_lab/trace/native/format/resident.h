// How much of a range of memory is resident.
#ifndef TRACE_RESIDENT_H
#define TRACE_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

// Resident bytes of the pages that the range touches. False: a part is not mapped, and *found covers only the pages
// before it.
static inline bool resident_bytes(const void *range, size_t bytes, size_t *found) {
  enum { PAGES_AT_ONCE = 1024 };
  unsigned char resident[PAGES_AT_ONCE];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uintptr_t at = (uintptr_t)range & ~(uintptr_t)(page - 1), end = (uintptr_t)range + bytes;
  *found = 0;
  while (at < end) {
    size_t pages = (end - at + page - 1) / page;
    pages = pages < PAGES_AT_ONCE ? pages : PAGES_AT_ONCE;
    if (mincore((void *)at, pages * page, resident) != 0)
      return false;
    for (size_t i = 0; i < pages; i++)
      *found += resident[i] & 1 ? page : 0;
    at += pages * page;
  }
  return true;
}

#endif
