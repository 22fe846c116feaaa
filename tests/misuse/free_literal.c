/* free of a string literal. */
#include "crime.h"

int main(void) {
  void *pointer = hide_pointer("a string that nobody allocated");
  give(take(64));
  announce(pointer);
  hak_free(pointer);
  drain(64);
  return 0;
}
