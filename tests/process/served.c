/* Separate from check.c, since a program without the dynamic linker cannot use it. */
#include "check.h"

#include <dlfcn.h>
#include <string.h>

void check_served(void) {
  const void *function = dlsym(RTLD_DEFAULT, "malloc");
  Dl_info info;
  CHECK(function != NULL);
  CHECK(dladdr(function, &info) != 0);
  CHECK(strstr(info.dli_fname, "libhakmem") != NULL);
}
