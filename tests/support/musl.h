/* Included before every test that is built for musl. Its headers lack some functions of the library, and some that a
 * few lines can replace. */
#pragma once

#include <stddef.h>
#include <unistd.h>

#define RTLD_DEEPBIND 0

/* Weak, since a test with the library preloaded is linked with no library that defines them. */
int malloc_trim(size_t keep_bytes) __attribute__((weak));
void *pvalloc(size_t bytes) __attribute__((weak));

static inline void closefrom(int fd) {
  for (int last = (int)sysconf(_SC_OPEN_MAX); fd < last; fd++) {
    close(fd);
  }
}
