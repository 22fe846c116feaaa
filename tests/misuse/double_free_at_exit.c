/* The program ends right after the second free: the last chance to notice. */
#include "crime.h"

int main(void) {
  void *block = take(BLOCK_BYTES);
  announce(block);
  give(block);
  hak_free(hide_pointer(block));
  return 0;
}
