/* mallopt returns 1 for the parameters of glibc's <malloc.h>, else 0. Only M_TRIM_THRESHOLD has an effect: it sets the
 * option RETAIN. */
#include <limits.h>
#include <malloc.h>
#include <string.h>

#include "trap.h"

enum { VALUE_BYTES = 64, UNKNOWN = 12345, MXFAST_MAX = 160 };

static void retain(char value[VALUE_BYTES]) {
  CHECK(HAK(hak_option_get)("RETAIN", value, VALUE_BYTES) == 0);
}

static void answers(int parameter, int value, int answer) {
  char before[VALUE_BYTES], after[VALUE_BYTES];
  retain(before);
  CHECK(mallopt(parameter, value) == answer);
  retain(after);
  CHECK(strcmp(before, after) == 0);
}

static void the_threshold_is_an_option(void) {
  char wanted[VALUE_BYTES], after[VALUE_BYTES];
  CHECK(HAK(hak_option_set)("RETAIN", "3M") == 0);
  retain(wanted);
  CHECK(HAK(hak_option_set)("RETAIN", "5M") == 0);
  CHECK(mallopt(M_TRIM_THRESHOLD, 3 << 20) == 1);
  retain(after);
  CHECK(strcmp(after, wanted) == 0);
  CHECK(mallopt(M_TRIM_THRESHOLD, -1) == 1); /* no amount of free memory is too much */
  retain(after);
  CHECK(strcmp(after, wanted) != 0 && strcmp(after, "0") != 0);
}

int main(void) {
  static const int without_effect[] = {M_NLBLKS,   M_GRAIN,        M_KEEP,    M_TOP_PAD,    M_MMAP_THRESHOLD,
                                       M_MMAP_MAX, M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX};
  static const int values[] = {0, 1, 1 << 20, -1, INT_MAX, INT_MIN};
  static const int unknown[] = {UNKNOWN, -UNKNOWN, 0, 5, -9, INT_MAX, INT_MIN};
  the_threshold_is_an_option();
  for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
    for (size_t i = 0; i < sizeof without_effect / sizeof *without_effect; i++) {
      answers(without_effect[i], values[j], 1);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
      answers(unknown[i], values[j], 0);
    }
  }
  for (int value = 0; value <= MXFAST_MAX; value++) {
    answers(M_MXFAST, value, 1);
  }
  answers(M_MXFAST, MXFAST_MAX + 1, 0);
  answers(M_MXFAST, -1, 0);
  return 0;
}
