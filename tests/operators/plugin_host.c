/* A C program that loads the library it is given, with the operators in it, and has it use them. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
  void *plugin = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  void (*use)(void) = NULL;
  if (plugin) {
    *(void **)&use = dlsym(plugin, "use_operators");
  }
  if (!use) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  use();
  return 0;
}
