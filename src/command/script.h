/* What the first line of a script says of the program that runs it. Nothing is run. */
#pragma once

#include <limits.h>
#include <stdbool.h>

typedef struct script {
  char interpreter[PATH_MAX]; /* the word behind #!, or the command that `env` there is asked for */
  bool by_name;               /* it is searched in PATH, as env does; else it is a path */
  bool without_environment;   /* env is asked to start it without one */
} script_t;

/* false: it is none, or cannot be read. */
bool script_read(const char *path, script_t *script);
