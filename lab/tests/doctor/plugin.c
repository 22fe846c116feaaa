/* A plugin that allocates. */
#include <stdlib.h>

void use(void);
void use(void) {
  void *volatile block = malloc(10);
  free(block);
}
