/* Ends with 0 where malloc is hakmem's. */
#include <hakmem.h>
#include <stdlib.h>

int main(void) {
  void *volatile block = malloc(100);
  const int ours = hak_version() == HAKMEM_VERSION && hak_malloc_usable_size(block) >= 100;
  free(block);
  return ours ? 0 : 1;
}
