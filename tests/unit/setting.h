/* Sets options for one test, by their public names. */
#ifndef HAK_TEST_SETTING_H
#define HAK_TEST_SETTING_H

#include <stdint.h>
#include <stdio.h>

#include "check.h"
#include "hakmem.h"
#include "system/options.h"

/* Sets an option that may change at any time. */
static inline void set_number(const char *name, uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "%ju", (uintmax_t)number);
  CHECK(hak_option_set(name, text) == 0);
}

/* Sets an option as the environment does, "HAKMEM_NAME=value". */
static inline void set_variable(const char *variable) {
  char copy[128];
  char *environment[] = {copy, NULL};
  snprintf(copy, sizeof copy, "%s", variable);
  hak_options_load(environment);
}

/* Free memory stays resident, whatever happens. */
static inline void retain_everything(void) {
  set_number("RETAIN", INT64_MAX);
  set_number("DECAY_MS", 3600000);
}

#endif
