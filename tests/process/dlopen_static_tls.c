/* Many libraries with static thread-local storage are loaded beside ours, which must leave them room.
 * arguments: the plugin, a directory for its copies, and the library to load late; no library if the program uses it
 * already */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

enum { LIBRARIES = 100 };

typedef int (*use_function)(void);

static use_function uses[LIBRARIES];

static void *use_all(void *argument) {
  (void)argument;
  for (unsigned i = 0; i < LIBRARIES; i++)
    CHECK(uses[i]() == 0);
  return NULL;
}

static use_function load_copy(const char *plugin, const char *directory, unsigned number) {
  char file[4096];
  CHECK(snprintf(file, sizeof file, "%s/tls_%u.so", directory, number) < (int)sizeof file);
  check_copy_file(plugin, file);
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  CHECK(handle != NULL);
  CHECK(unlink(file) == 0);
  use_function use = (use_function)dlsym(handle, "tls_plugin_use");
  CHECK(use != NULL);
  return use;
}

static void load_late(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  CHECK(handle != NULL);
  void *(*hak_malloc)(size_t) = (void *(*)(size_t))dlsym(handle, "hak_malloc");
  void (*hak_free)(void *) = (void (*)(void *))dlsym(handle, "hak_free");
  CHECK(hak_malloc != NULL && hak_free != NULL);
  void *block = hak_malloc(100);
  CHECK(block != NULL);
  hak_free(block);
}

int main(int count, char **arguments) {
  pthread_t id;
  CHECK(count == 3 || count == 4);
  if (count == 3)
    check_served();
  for (unsigned i = 0; i < LIBRARIES; i++)
    uses[i] = load_copy(arguments[1], arguments[2], i);
  if (count == 4)
    load_late(arguments[3]);
  use_all(NULL);
  CHECK(pthread_create(&id, NULL, use_all, NULL) == 0);
  CHECK(pthread_join(id, NULL) == 0);
  return 0;
}
