/* A library with a word of static thread-local storage, of which a process has little. */
#include <stdlib.h>

static __thread void *block __attribute__((tls_model("initial-exec")));

int tls_plugin_use(void);
int tls_plugin_use(void) {
  block = malloc(100);
  int result = block != NULL ? 0 : -1;
  free(block);
  return result;
}
