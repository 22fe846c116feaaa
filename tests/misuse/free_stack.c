/* free of a local variable. */
#include "crime.h"

int main(void) {
  _Alignas(16) char local[64];
  void *pointer = hide_pointer(local);
  give(take(64));
  announce(pointer);
  hak_free(pointer);
  drain(64);
  return 0;
}
