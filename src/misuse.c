#include "misuse.h"

#include "observe.h"
#include "text.h"

#include <stdlib.h>

_Noreturn HAK_COLD void hak_misuse(const char *function, hak_misuse_t reason, const void *block) {
#define HAK_MISUSE(name, text) [HAK_MISUSE_##name] = (text),
  static const char *const reasons[] = {
#include "misuse.def"
  };
#undef HAK_MISUSE
  char line[160];
  hak_text_t text = hak_text_on(line, sizeof line);
  hak_text_string(&text, "hakmem: ");
  hak_text_string(&text, function);
  hak_text_string(&text, "(): ");
  hak_text_string(&text, reasons[reason]);
  hak_text_string(&text, ": 0x");
  hak_text_hex(&text, (uintptr_t)block);
  hak_text_string(&text, "\n");
  hak_text_to_stderr(&text);
  hak_observe_explain(block);
  abort();
}

_Noreturn HAK_COLD void hak_verify_failed(const char *condition, const char *file, int line) {
  char buffer[400];
  hak_text_t text = hak_text_on(buffer, sizeof buffer);
  hak_text_string(&text, "hakmem: heap invariant violated: ");
  hak_text_string(&text, condition);
  hak_text_string(&text, " (");
  hak_text_string(&text, file);
  hak_text_string(&text, ":");
  hak_text_number(&text, (uint64_t)line);
  hak_text_string(&text, ")\n");
  hak_text_to_stderr(&text);
  abort();
}
