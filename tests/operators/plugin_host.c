/* A C program that loads the given library, which defines the operators, and makes it use them. */
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
