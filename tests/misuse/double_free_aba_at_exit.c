/* free(a), free(b), free(a), and the program ends: only the look at the thread's lists at exit can notice. */
#include "crime.h"

int main(void) {
  void *a = take(BLOCK_BYTES);
  void *b = take(BLOCK_BYTES);
  announce(a);
  give(a);
  give(b);
  hak_free(hide_pointer(a));
  return 0;
}
