/* Two sites whose speed on glibc depends on its options: one allocates blocks that may be mapped one by one, the other
 * small blocks. */
#include <stdlib.h>
#include <string.h>

#define SITE __attribute__((noinline, noclone))
void *volatile seen;

SITE void large(void) {
  for (int i = 0; i < 300; i++) {
    seen = memset(malloc(1 << 18), 1, 1 << 18);
    free(seen);
  }
}

SITE void small(void) {
  void *blocks[100];
  for (int i = 0; i < 100; i++) {
    for (int k = 0; k < 100; k++) {
      blocks[k] = malloc(100);
    }
    for (int k = 0; k < 100; k++) {
      free(blocks[k]);
    }
  }
}

int main(void) {
  large();
  small();
  return 0;
}
