// Uses the operators: of the program itself, of a library that it is linked with, or, with an argument, of one that it
// loads.
#include "note.h"

#include <cstdio>
#include <dlfcn.h>

int main(int count, char **arguments) {
  if (count > 1 && !dlopen(arguments[1], RTLD_NOW)) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  use_operators();
  return 0;
}
