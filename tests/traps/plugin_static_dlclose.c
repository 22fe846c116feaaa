/* Threads use a plugin that contains the archive, and it is unloaded while they live. Then the threads end, and the
 * process forks and ends; none of this calls code that was unmapped. argument: the plugin */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap.h"

enum { ROUNDS = 20 };

static const char *path;

static void load_use_unload(void) {
  void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(plugin != NULL);
  void (*use)(void) = NULL;
  *(void **)&use = dlsym(plugin, "plugin_use");
  CHECK(use != NULL);
  use();
  CHECK(dlclose(plugin) == 0);
}

static void *in_thread(void *argument) {
  (void)argument;
  load_use_unload();
  return NULL;
}

static void fork_once(void) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    _exit(0);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  path = arguments[1];
  trap_watchdog(60);
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    fork_once();
  }
  load_use_unload();
  fork_once();
  return 0;
}
