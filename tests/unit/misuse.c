/* The messages that end a process. */
#include "base/base.h"
#include "check.h"
#include "child.h"

#define HAK_MISUSE(name, text) text,
static const char *const reasons[] = {
#include "base/misuse.def"
};
#undef HAK_MISUSE

static hak_misuse_t reason;
static char place;

static void commit(void) {
  hak_misuse("some_function", reason, &place);
}

static void commit_on_null(void) {
  hak_misuse("free", reason, NULL);
}

static void violate(void) {
  HAK_VERIFY(&place == NULL);
}

static void hold(void) {
  HAK_VERIFY(&place != NULL);
  HAK_ASSERT(&place != NULL);
}

int main(void) {
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
    reason = (hak_misuse_t)i;
    child_is_stopped(commit, "some_function", reasons[i], &place);
    child_is_stopped(commit_on_null, "free", reasons[i], NULL);
  }
  child_breaks_invariant(violate);
  child_succeeds(hold);
  return 0;
}
