/* Commands that start another one (env, nice, timeout), and their effect on the environment. Nothing is run. */
#include "starter.h"

#include <stddef.h>
#include <string.h>

#define PRELOAD "LD_PRELOAD"

/* with_value: letters of options that take a word. operands: words between the options and the command. lost: why the
 * command cannot use the allocator, whatever the options. */
typedef struct starter {
  const char *name, *with_value;
  int operands;
  const char *lost;
} starter_t;

static const starter_t starters[] = {
    {"env", "uCS", 0, NULL},
    {"nice", "n", 0, NULL},
    {"nohup", "", 0, NULL},
    {"setsid", "", 0, NULL},
    {"stdbuf", "ioe", 0, NULL},
    {"timeout", "ks", 1, NULL},
    {"ionice", "cn", 0, NULL},
    {"sudo", "", 0, "starts it in an environment of its own"},
    {"doas", "", 0, "starts it in an environment of its own"},
    {"pkexec", "", 0, "starts it in an environment of its own"},
    {"systemd-run", "", 0, "has another process start it"},
    {"docker", "", 0, "has another process start it, in a container"},
    {"podman", "", 0, "starts it in a container"},
    {"kubectl", "", 0, "has another machine start it"},
    {"ssh", "", 0, "has another machine start it"},
};

static const starter_t *starter_of(const char *word) {
  const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
  for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
    if (strcmp(name, starters[i].name) == 0) {
      return &starters[i];
    }
  }
  return NULL;
}

static bool is_one_of(const char *word, const char *const *list) {
  while (*list && strcmp(word, *list) != 0) {
    list++;
  }
  return *list != NULL;
}

/* The reason why an option of env removes LD_PRELOAD; NULL: it does not. value: the word behind it, or NULL. */
static const char *lost_by_env(const char *option, const char *value) {
  static const char *const clears[] = {"-i", "-", "--ignore-environment", "-iv", "-vi", NULL};
  static const char *const unsets[] = {"-u" PRELOAD, "--unset=" PRELOAD, NULL};
  bool unset = value && (strcmp(option, "-u") == 0 || strcmp(option, "--unset") == 0) && strcmp(value, PRELOAD) == 0;
  if (is_one_of(option, clears)) {
    return "starts it without an environment, so nothing can be preloaded";
  }
  return unset || is_one_of(option, unsets) ? "starts it without " PRELOAD : NULL;
}

/* Skip env's words NAME=VALUE. elsewhere: env searches the command where this wrapper does not. */
static char **skip_variables(char **word, const char **lost, bool *elsewhere) {
  for (; *word && strchr(*word, '='); word++) {
    *elsewhere = *elsewhere || strncmp(*word, "PATH=", 5) == 0;
    if (strncmp(*word, PRELOAD "=", sizeof PRELOAD) == 0) {
      *lost = "starts it with another " PRELOAD;
    }
  }
  return word;
}

started_t starter_read(char **words) {
  static const char *const long_with_value[] = {"--unset", "--chdir", "--adjustment", "--signal", "--kill-after", NULL};
  const starter_t *starter = starter_of(words[0]);
  started_t started = {NULL, starter ? starter->lost : NULL};
  if (!starter || started.lost) {
    return started;
  }
  bool env = strcmp(starter->name, "env") == 0, elsewhere = false;
  char **word = words + 1;
  for (; *word && **word == '-'; word++) {
    bool takes = is_one_of(*word, long_with_value) ||
                 ((*word)[1] && (*word)[1] != '-' && !(*word)[2] && strchr(starter->with_value, (*word)[1]));
    const char *lost = env ? lost_by_env(*word, takes ? word[1] : NULL) : NULL;
    started.lost = lost ? lost : started.lost;
    elsewhere = elsewhere || (env && (strcmp(*word, "-C") == 0 || strncmp(*word, "--chdir", 7) == 0));
    if (strcmp(*word, "--") == 0) {
      word++;
      break;
    }
    if (env && (strncmp(*word, "-S", 2) == 0 || strncmp(*word, "--split-string", 14) == 0)) {
      return started; /* words within a word */
    }
    word += takes && word[1];
  }
  word = env ? skip_variables(word, &started.lost, &elsewhere) : word;
  for (int i = 0; i < starter->operands && *word; i++) {
    word++;
  }
  started.words = *word && (!elsewhere || started.lost) ? word : NULL;
  return started;
}
