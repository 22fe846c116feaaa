/* mallopt says 1 where it changed something, else 0. M_TRIM_THRESHOLD is the option RETAIN. */
#include <malloc.h>
#include <string.h>

#include "trap.h"

enum { VALUE_BYTES = 64, UNKNOWN = 12345 };

static void retain(char value[VALUE_BYTES]) {
  CHECK(HAK(hak_option_get)("RETAIN", value, VALUE_BYTES) == 0);
}

int main(void) {
  static const int without_effect[] = {M_MXFAST,  M_TOP_PAD,    M_MMAP_THRESHOLD, M_MMAP_MAX, M_CHECK_ACTION,
                                       M_PERTURB, M_ARENA_TEST, M_ARENA_MAX,      UNKNOWN,    -UNKNOWN};
  char three[VALUE_BYTES], before[VALUE_BYTES], after[VALUE_BYTES];
  CHECK(HAK(hak_option_set)("RETAIN", "3M") == 0);
  retain(three);
  CHECK(HAK(hak_option_set)("RETAIN", "5M") == 0);
  CHECK(mallopt(M_TRIM_THRESHOLD, 3 << 20) == 1);
  retain(after);
  CHECK(strcmp(after, three) == 0);
  for (size_t i = 0; i < sizeof without_effect / sizeof *without_effect; i++) {
    retain(before);
    CHECK(mallopt(without_effect[i], 1 << 20) == 0);
    retain(after);
    CHECK(strcmp(before, after) == 0);
  }
  return 0;
}
