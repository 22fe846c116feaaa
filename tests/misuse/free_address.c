/* free of a number that is no address of this process: ADDRESS. */
#include <stdint.h>

#include "crime.h"

int main(void) {
  void *pointer = hide_pointer((const void *)(uintptr_t)ADDRESS);
  give(take(64));
  announce(pointer);
  hak_free(pointer);
  drain(64);
  return 0;
}
