/* The very first call of the process frees a local variable: no heap exists yet. */
#include "crime.h"

int main(void) {
  _Alignas(16) char local[64];
  void *pointer = hide_pointer(local);
  announce(pointer);
  hak_free(pointer);
  drain(64);
  return 0;
}
