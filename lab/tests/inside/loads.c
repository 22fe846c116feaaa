/* loads LIBRARY: makes the library's private allocator map memory, prints "ready" and waits. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **words) {
  void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
  int (*map)(int) = library ? (int (*)(int))dlsym(library, "private_je_malloc") : NULL;
  if (!map || map(0))
    return 1;
  puts("ready");
  fflush(stdout);
  pause();
  return 0;
}
