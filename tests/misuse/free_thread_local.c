/* free of a thread-local variable. */
#include "crime.h"

static _Thread_local _Alignas(16) char local[64];

int main(void) {
  void *pointer = hide_pointer(local);
  give(take(64));
  announce(pointer);
  hak_free(pointer);
  drain(64);
  return 0;
}
