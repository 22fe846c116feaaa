/* A plugin loaded with RTLD_DEEPBIND exchanges blocks with its host.
 * arguments: the plugin, and which blocks:
 *   own     each side frees what it allocated, and the host what the C library allocated
 *   host    the host also frees what the plugin allocated
 *   plugin  the plugin also frees what the host or the C library allocated */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plugin.h"

static void *symbol_of(void *handle, const char *name) {
  void *address = dlsym(handle, name);
  CHECK(address != NULL);
  return address;
}

int main(int count, char **arguments) {
  CHECK(count == 3);
  check_served();
  bool by_host = strcmp(arguments[2], "host") == 0;
  bool by_plugin = strcmp(arguments[2], "plugin") == 0;
  CHECK(by_host || by_plugin || strcmp(arguments[2], "own") == 0);
  void *handle = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  CHECK(handle != NULL);
  __typeof__(&plugin_own_blocks) own_blocks = symbol_of(handle, "plugin_own_blocks");
  __typeof__(&plugin_copy_text) copy_text = symbol_of(handle, "plugin_copy_text");
  __typeof__(&plugin_malloc) allocate = symbol_of(handle, "plugin_malloc");
  __typeof__(&plugin_free) release = symbol_of(handle, "plugin_free");

  own_blocks();
  char *text = copy_text("from the plugin");
  CHECK(strcmp(text, "from the plugin") == 0);
  free(text);
  release(allocate(100));
  if (by_host)
    free(allocate(100));
  if (by_plugin) {
    release(copy_text("freed where it was asked for"));
    release(malloc(100));
  }
  CHECK(dlclose(handle) == 0);
  return 0;
}
