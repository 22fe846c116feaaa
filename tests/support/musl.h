/* Included before every test that is built for musl, whose headers lack what the library has, or what a few lines do.
 */
#pragma once

#include <stddef.h>
#include <unistd.h>

#define RTLD_DEEPBIND 0

/* Weak: a test on which the library is preloaded is linked with none that has them. */
int malloc_trim(size_t keep_bytes) __attribute__((weak));
void *pvalloc(size_t bytes) __attribute__((weak));

static inline void closefrom(int fd) {
  for (int last = (int)sysconf(_SC_OPEN_MAX); fd < last; fd++) {
    close(fd);
  }
}
