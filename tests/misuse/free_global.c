/* free of a static variable. */
#include "crime.h"

static _Alignas(16) char global[64];

int main(void) {
  void *pointer = hide_pointer(global);
  give(take(64));
  announce(pointer);
  hak_free(pointer);
  drain(64);
  return 0;
}
