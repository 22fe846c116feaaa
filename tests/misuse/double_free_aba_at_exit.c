/* free(a), free(b), free(a), and the program ends: only the look at the thread's lists at exit can notice. */
#include "crime.h"

int main(void) {
  free_aba(BLOCK_BYTES);
  return 0;
}
