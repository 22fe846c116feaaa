/* Reports a caller's error with one message, then aborts. Every layer above calls it. */
#include "os.h"
#include "text.h"

#include <stdlib.h>

static _Atomic bool reported; /* by any thread */

bool hak_misuse_is_reported(void) {
  return atomic_load_explicit(&reported, memory_order_relaxed);
}

/* Runs before the message. A thread that reports again does so in its handler of SIGABRT, which would never end. */
static void prepare(void) {
  static _Thread_local bool mine __attribute__((tls_model("initial-exec")));
  hak_aside_t aside;
  if (mine) {
    hak_os_reset_abort();
  }
  mine = true;
  atomic_store_explicit(&reported, true, memory_order_relaxed);
  hak_hook_heap.step_aside(&aside);
}

_Noreturn HAK_COLD void hak_misuse(const char *function, hak_misuse_t reason, const void *block) {
#define HAK_MISUSE(name, text) [HAK_MISUSE_##name] = (text),
  static const char *const reasons[] = {
#include "base/misuse.def"
  };
#undef HAK_MISUSE
  char place[128];
  hak_text_t text = hak_text_on(place, sizeof place);
  prepare();
  hak_hook_heap.write_place(&text, block);
  hak_text_say("hakmem: %s(): %s: %s\n", function ? function : "fork", reasons[reason], place);
  abort();
}

HAK_COLD void hak_misuse_met(const char *function, hak_misuse_t reason, const void *block) {
  if (!hak_misuse_is_reported()) {
    hak_misuse(function, reason, block);
  }
}

_Noreturn HAK_COLD void hak_misuse_verify_failed(const char *condition, const char *file, size_t line) {
  prepare();
  hak_text_say("hakmem: heap invariant violated: %s (%s:%zu)\n", condition, file, line);
  abort();
}
