/* host [PLUGIN [deep]]: loads the plugin if there is one, with RTLD_DEEPBIND if `deep` is given, and makes it allocate.
 * Then prints "ready" and waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *own_pool(size_t bytes) {
  return calloc(1, bytes);
}

int main(int count, char **words) {
  void *volatile own = malloc(100);
  if (count > 1) {
    void *plugin = dlopen(words[1], count > 2 ? RTLD_NOW | RTLD_DEEPBIND : RTLD_NOW);
    void (*use)(void) = plugin ? (void (*)(void))dlsym(plugin, "use") : NULL;
    if (!use) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    use();
    *(void *(**)(size_t))dlsym(plugin, "chosen") = own_pool;
  }
  puts("ready");
  fflush(stdout);
  pause();
  free(own);
  return 0;
}
