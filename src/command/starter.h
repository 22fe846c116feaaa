/* Commands that start another one, as env and nice do. Nothing is run. */
#pragma once

#include <stdbool.h>

/* How a command starts another. lost: why the other will not have our LD_PRELOAD; NULL: it will, as far as the words
 * tell. */
typedef struct started {
  char **words;
  const char *lost;
} started_t;

/* NULL words: the first of them is no starter, or what it starts is not known. */
started_t starter_read(char **words);
