/* The interpreter in a script's first line, and its arguments. Nothing is run. */
#include "script.h"

#include <stdio.h>
#include <string.h>

#define SPACES " \t"
#define ENDS " \t\n"

/* The next word of the line, which it terminates; NULL: there is none. */
static char *next_word(char **line) {
  char *word = *line + strspn(*line, SPACES), *end = word + strcspn(word, ENDS);
  *line = *end == '\0' || *end == '\n' ? end : end + 1;
  bool there = end != word;
  *end = '\0';
  return there ? word : NULL;
}

static bool begins(const char *word, const char *with) {
  return strncmp(word, with, strlen(with)) == 0;
}

/* The command that env starts: `env NAME`, where all that follows is one word, or `env -S [OPTION...]
 * [VARIABLE=VALUE...] NAME ...`. NULL: the line is not understood, and env itself is checked. */
static char *asked_of_env(char *line, bool *without_environment) {
  line += strspn(line, SPACES);
  if (!begins(line, "-S") && !begins(line, "-vS")) {
    for (char *end = line + strcspn(line, "\n"); end > line && strchr(ENDS, *end); end--) { /* as the kernel does */
      *end = '\0';
    }
    return *line && *line != '-' ? line : NULL;
  }
  line = strchr(line, 'S') + 1;
  for (char *word; (word = next_word(&line));) {
    if (strcmp(word, "-i") == 0 || strcmp(word, "-") == 0 || strcmp(word, "--ignore-environment") == 0) {
      *without_environment = true;
    } else if (*word == '-' || strpbrk(word, "\"'\\$")) { /* an option with an argument, quotes, variables */
      return NULL;
    } else if (!strchr(word, '=')) {
      return word;
    }
  }
  return NULL;
}

bool script_read(const char *path, script_t *script) {
  char line[PATH_MAX];
  *script = (script_t){0};
  FILE *file = fopen(path, "re");
  char *got = file ? fgets(line, sizeof line, file) : NULL;
  if (file) {
    fclose(file);
  }
  if (!got || !begins(line, "#!")) {
    return false;
  }
  char *rest = line + 2, *program = next_word(&rest);
  if (!program) {
    return false;
  }
  const char *name = strrchr(program, '/');
  char *asked = name && strcmp(name, "/env") == 0 ? asked_of_env(rest, &script->without_environment) : NULL;
  script->by_name = asked != NULL;
  snprintf(script->interpreter, sizeof script->interpreter, "%s", asked ? asked : program);
  return true;
}
