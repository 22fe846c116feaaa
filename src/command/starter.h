/* Commands that start another one, as env and nice do. Nothing is run. */
#pragma once

#include <stdbool.h>

/* The command that another one starts. lost: why LD_PRELOAD does not reach it; NULL: as far as the words show, it
 * does. */
typedef struct started {
  char **words;
  const char *lost;
} started_t;

/* NULL words: the first word is no starter, or the command it starts is unknown. */
started_t starter_read(char **words);
