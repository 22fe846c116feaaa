/* Apart from trap.c: only a program that runs with the library preloaded has to look for its functions. */
#include "trap.h"

#include <dlfcn.h>

void *trap_find(const char *name) {
  void *function = dlsym(RTLD_DEFAULT, name);
  CHECK(function != NULL);
  return function;
}
