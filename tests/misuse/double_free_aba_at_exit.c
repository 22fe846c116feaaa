/* free(a), free(b), free(a), and the program ends: only the check of the thread's cache at exit can notice it. */
#include "crime.h"

int main(void) {
  free_aba(BLOCK_BYTES);
  return 0;
}
