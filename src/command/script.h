/* The first line of a script, which names the program that runs it. Nothing is run. */
#pragma once

#include <limits.h>
#include <stdbool.h>

typedef struct script {
  char interpreter[PATH_MAX]; /* the word behind #!, or the command that its `env` starts */
  bool by_name;               /* it is a name to be searched in PATH, as env does; else a path */
  bool without_environment;   /* env starts it with an empty environment */
} script_t;

/* False: the file is no script, or cannot be read. */
bool script_read(const char *path, script_t *script);
