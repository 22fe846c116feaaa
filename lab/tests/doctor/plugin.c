/* A plugin that allocates, and whose pointer to a function of malloc's kind is given another one, as Python's decimal
 * does. */
#include <stdlib.h>

void *(*chosen)(size_t) = malloc;

void use(void);
void use(void) {
  void *volatile block = malloc(10);
  free(block);
}
