/* realloc of a local variable. */
#include "crime.h"

int main(void) {
  _Alignas(16) char local[64] = {0};
  void *pointer = hide_pointer(local);
  give(take(64));
  announce(pointer);
  take(1);
  hide_pointer(hak_realloc(pointer, NEW_BYTES));
  drain(64);
  return 0;
}
