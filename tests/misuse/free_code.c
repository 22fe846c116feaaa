/* free of a function. */
#include "crime.h"

int main(void) {
  void *pointer = hide_pointer((const void *)(size_t)main);
  give(take(64));
  announce(pointer);
  hak_free(pointer);
  drain(64);
  return 0;
}
