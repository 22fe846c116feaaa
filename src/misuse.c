/* Reports a caller's error with one message, then aborts. Every layer above calls it. */
#include "place.h"
#include "text.h"

#include <stdlib.h>

_Noreturn HAK_COLD void hak_misuse(const char *function, hak_misuse_t reason, const void *block) {
#define HAK_MISUSE(name, text) [HAK_MISUSE_##name] = (text),
  static const char *const reasons[] = {
#include "misuse.def"
  };
#undef HAK_MISUSE
  char place[128];
  hak_text_t text = hak_text_on(place, sizeof place);
  hak_place_write(&text, block);
  hak_text_say("hakmem: %s(): %s: %s\n", function ? function : "fork", reasons[reason], place);
  abort();
}

_Noreturn HAK_COLD void hak_verify_failed(const char *condition, const char *file, size_t line) {
  hak_text_say("hakmem: heap invariant violated: %s (%s:%zu)\n", condition, file, line);
  abort();
}
