/* Reports a caller's error with one message, then aborts. Every layer above calls it. */
#include "text.h"

#include <stdlib.h>

_Noreturn HAK_COLD void hak_misuse(const char *function, hak_misuse_t reason, const void *block) {
#define HAK_MISUSE(name, text) [HAK_MISUSE_##name] = (text),
  static const char *const reasons[] = {
#include "misuse.def"
  };
#undef HAK_MISUSE
  hak_text_say("hakmem: %s(): %s: 0x%zx\n", function ? function : "fork", reasons[reason], (uintptr_t)block);
  abort();
}

_Noreturn HAK_COLD void hak_verify_failed(const char *condition, const char *file, size_t line) {
  hak_text_say("hakmem: heap invariant violated: %s (%s:%zu)\n", condition, file, line);
  abort();
}
