/* Separate from trap.c, since only a program that runs with the library preloaded must look up its functions. */
#include "trap.h"

#include <dlfcn.h>

void *trap_find(const char *name) {
  void *function = dlsym(RTLD_DEFAULT, name);
  CHECK(function != NULL);
  return function;
}
